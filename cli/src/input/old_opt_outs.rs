//! Who has opted out: the columns and the words that say so, in bulk sending and in imports.

/// Why a row without a value is left out of a file in which other rows have one.
pub const MISSING_SUBSCRIBED: &str =
    "the row has no value for `subscribed`, which other rows have; write true or false";

/// The next step for a file with several columns that say who is subscribed.
pub const SUBSCRIBED_TWICE: &str =
    "remove one: only you can know which of them says who has opted out";

/// Whether a word says that a person is subscribed.
pub fn subscribed(word: &str) -> Result<bool, String> {
    match word.trim().to_lowercase().as_str() {
        "true" | "yes" | "y" | "1" | "subscribed" => Ok(true),
        "false" | "no" | "n" | "0" | "unsubscribed" => Ok(false),
        _ => Err("`subscribed` must be true or false".to_owned()),
    }
}

/// Whether a column of this name says who is subscribed.
pub fn is_subscribed(column: &str) -> bool {
    matches!(compact(column).as_str(), "subscribed" | "issubscribed")
}

/// Words of columns of which `true` probably means that the person has opted out.
const OPT_OUT: [&str; 14] = [
    "optout",
    "optedout",
    "unsub",
    "donot",
    "dont",
    "noemail",
    "nomail",
    "suppress",
    "blocklist",
    "blocked",
    "blacklist",
    "bounce",
    "complain",
    "spam",
];

/// As [`OPT_OUT`], for the whole name: `deleted_items` is something else.
const OPT_OUT_NAMES: [&str; 3] = ["dnc", "inactive", "deleted"];

/// Whether this column may say who has opted out, in either direction.
pub fn says_who_opted_out(column: &str) -> bool {
    const WORDS: [&str; 9] = [
        "status",
        "state",
        "optin",
        "optedin",
        "subscribed",
        "subscription",
        "consent",
        "permission",
        "accept",
    ];
    // `newsletter_url` is something else.
    const ENDS: [&str; 7] = [
        "newsletter",
        "newsletters",
        "marketing",
        "marketingemail",
        "marketingemails",
        "subscribe",
        "gdpr",
    ];
    let name = compact(column);
    lists_opt_outs(column)
        || WORDS.iter().any(|word| name.contains(word))
        || ENDS.iter().any(|end| name.ends_with(end))
        || without_is(&name) == "active"
}

/// Whether a column of which [`says_who_opted_out`] is true more often says something else: a part
/// of a postal address.
pub fn is_mostly_harmless(column: &str) -> bool {
    compact(column) == "state"
}

/// Whether `true` in this column probably means that the person has opted out.
pub fn lists_opt_outs(column: &str) -> bool {
    let name = compact(column);
    OPT_OUT.iter().any(|word| name.contains(word)) || OPT_OUT_NAMES.contains(&without_is(&name))
}

/// `deleted` of `is_deleted`.
fn without_is(name: &str) -> &str {
    name.strip_prefix("is").unwrap_or(name)
}

/// The letters and digits of a column's name, in lower case.
pub fn compact(column: &str) -> String {
    column.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_opt_outs_are_recognized() {
        for column in [
            "Unsubscribed",
            "Opt out",
            "opted_out",
            "Unsub",
            "do not email",
            "suppressed",
            "bounced",
            "complained",
            "Hard Bounces",
            "is_spam",
            "blocked",
            "DNC",
            "inactive",
            "is_deleted",
        ] {
            assert!(lists_opt_outs(column) && says_who_opted_out(column), "{column}");
            assert!(!is_subscribed(column), "{column}");
        }
        for column in [
            "Opted-In",
            "opt_in",
            "email_permission",
            "Accepts Marketing",
            "Subscribed on",
            "newsletter",
            "Wants newsletter",
            "email marketing",
            "marketing_emails",
            "Subscribe",
            "is active",
        ] {
            assert!(!lists_opt_outs(column) && says_who_opted_out(column), "{column}");
        }
        for column in ["is_subscribed", "Subscribed?"] {
            assert!(is_subscribed(column), "{column}");
        }
        for column in [
            "newsletter_url",
            "city",
            "plan",
            "marketing_source",
            "last_active",
            "deleted_items",
            "subscriber_id",
        ] {
            assert!(!says_who_opted_out(column), "{column}");
        }
        assert!(!lists_opt_outs("status") && !lists_opt_outs("Subscription"));
    }
}
