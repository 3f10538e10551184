//! What each column of a file means: chosen with `--map`, or guessed from its name.

use crate::failure::Failure;
use crate::input::opt_outs::{
    SUBSCRIBED_TWICE, compact, is_subscribed, lists_opt_outs, says_who_opted_out,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    Email,
    Name,
    FirstName(Beside),
    LastName(Beside),
    Topics,
    Subscribed,
    WholeMetadata,
    Metadata(String),
    Ignore,
}

/// The metadata key of a first or last name beside a column with the whole name, which wins.
pub(super) type Beside = Option<String>;

pub(super) fn fields(
    header: &csv::StringRecord,
    map: &[(String, String)],
) -> Result<Vec<Field>, Failure> {
    if let Some((column, _)) = map.iter().find(|(column, _)| !header.iter().any(|h| h == column)) {
        return Err(Failure::usage(format!("--map: the file has no column `{column}`")));
    }
    let inverts =
        |(column, field): &&(String, String)| field == "subscribed" && lists_opt_outs(column);
    if let Some((column, _)) = map.iter().find(inverts) {
        return Err(Failure::usage(format!(
            "--map: yes in the column `{column}` probably means that the person is not subscribed"
        ))
        .hint("add a column `subscribed` with the opposite values, or rename this one"));
    }
    // One of them may say who has opted out.
    let is_doubtful = |column: &str| {
        is_subscribed(column) && header.iter().filter(|name| *name == column).count() > 1
    };
    if let Some((column, _)) = map.iter().find(|(column, _)| is_doubtful(column)) {
        return Err(Failure::input(format!("--map: the file has several columns `{column}`"))
            .hint("rename or remove one"));
    }
    let again = map
        .iter()
        .enumerate()
        .find(|(index, (column, _))| map[..*index].iter().any(|(earlier, _)| earlier == column));
    if let Some((_, (column, _))) = again {
        return Err(Failure::usage(format!("--map: `{column}` is given twice")));
    }
    let fields = header
        .iter()
        .map(|column| match map.iter().find(|(from, _)| from == column) {
            Some((_, to)) => named(to),
            None => Ok(guessed(column)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let fields = beside_name(&header.iter().collect::<Vec<_>>(), fields);
    let twice = fields.iter().enumerate().find(|(index, field)| {
        !matches!(field, Field::Ignore | Field::Email) && fields[..*index].contains(field)
    });
    if let Some((index, _)) = twice {
        let column = header.get(index).unwrap_or_default();
        let hint = match fields[index] {
            Field::Subscribed => SUBSCRIBED_TWICE.to_owned(),
            _ => format!("rename one, or ignore it: --map '{column}=ignore'"),
        };
        return Err(
            Failure::input(format!("several columns map to the field of `{column}`")).hint(hint)
        );
    }
    match fields.iter().filter(|field| **field == Field::Email).count() {
        1 => Ok(fields),
        0 => Err(Failure::input("no column is named `email`")
            .hint("name the column: --map 'E-Mail Address=email'")),
        _ => Err(Failure::input("several columns map to `email`")
            .hint("ignore one: --map 'Other Email=ignore'")),
    }
}

/// Keeps the parts of a name beside a whole one as metadata.
pub(super) fn beside_name(columns: &[&str], mut fields: Vec<Field>) -> Vec<Field> {
    if fields.contains(&Field::Name) {
        for (column, field) in columns.iter().zip(&mut fields) {
            if let Field::FirstName(key) | Field::LastName(key) = field {
                *key = Some((*column).to_owned());
            }
        }
    }
    fields
}

fn named(field: &str) -> Result<Field, Failure> {
    Ok(match field {
        "email" => Field::Email,
        "name" => Field::Name,
        "first_name" => Field::FirstName(None),
        "last_name" => Field::LastName(None),
        "topics" => Field::Topics,
        "subscribed" => Field::Subscribed,
        "metadata" => Field::WholeMetadata,
        "ignore" => Field::Ignore,
        _ => match field.strip_prefix("metadata.") {
            Some(key) if !key.is_empty() => Field::Metadata(key.to_owned()),
            _ => {
                return Err(Failure::usage(format!(
                    "--map: unknown field `{field}`; use email, name, first_name, last_name, topics, subscribed, metadata, metadata.KEY or ignore"
                )));
            }
        },
    })
}

pub(super) fn guessed(column: &str) -> Field {
    match compact(column).as_str() {
        "email" | "emailaddress" | "mail" => Field::Email,
        "name" | "fullname" | "displayname" => Field::Name,
        "firstname" | "givenname" | "forename" => Field::FirstName(None),
        "lastname" | "surname" | "familyname" => Field::LastName(None),
        "topics" | "topic" => Field::Topics,
        "metadata" => Field::WholeMetadata,
        _ if is_subscribed(column) => Field::Subscribed,
        // Columns of an export that only the service can set.
        "id" | "audienceid" | "createdat" | "updatedat" => Field::Ignore,
        _ if column.trim().is_empty() => Field::Ignore,
        _ => Field::Metadata(column.to_owned()),
    }
}

/// Whether a column of this name is not imported unless `--map` names it.
pub(crate) fn is_ignored(column: &str) -> bool {
    guessed(column) == Field::Ignore
}

/// How the columns are mapped, and those stored as metadata that may say who has opted out.
pub(super) fn described(
    header: &csv::StringRecord,
    fields: &[Field],
    map: &[(String, String)],
) -> (String, Vec<String>) {
    let mut doubtful = Vec::new();
    let columns = header.iter().zip(fields).map(|(column, field)| {
        let target = match field {
            Field::Email => "email".to_owned(),
            Field::Name => "name".to_owned(),
            Field::FirstName(None) => "first part of name".to_owned(),
            Field::LastName(None) => "last part of name".to_owned(),
            Field::FirstName(Some(key)) | Field::LastName(Some(key)) => {
                format!("metadata.{key} (and part of name if that is empty)")
            }
            Field::Topics => "topics".to_owned(),
            Field::Subscribed => "subscribed".to_owned(),
            Field::WholeMetadata => "metadata".to_owned(),
            Field::Metadata(key) => {
                let is_chosen = map.iter().any(|(from, _)| from == column);
                if !is_chosen && says_who_opted_out(column) {
                    doubtful.push(column.to_owned());
                }
                format!("metadata.{key}")
            }
            Field::Ignore => "ignored".to_owned(),
        };
        format!("{column} → {target}")
    });
    (columns.collect::<Vec<_>>().join(", "), doubtful)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_opt_outs_are_not_mapped_to_subscribed() {
        for column in ["Unsubscribed", "opt_in", "newsletter", "#"] {
            assert_eq!(guessed(column), Field::Metadata(column.to_owned()));
        }
        for column in ["is_subscribed", "Subscribed?"] {
            assert_eq!(guessed(column), Field::Subscribed, "{column}");
        }
    }
}
