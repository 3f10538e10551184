//! How services call things where their reference is silent: the lists of `words.json`. Names of
//! fields are there as [`plain`](crate::fields::plain) returns them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

macro_rules! words {
    ($($list:ident),+) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Words<'a> {
            /// Other names of fields that the reference has.
            #[serde(borrow)]
            pub(crate) aliases: BTreeMap<&'a str, Vec<&'a str>>,
            $(#[serde(borrow)] pub(crate) $list: Vec<&'a str>,)+
        }
    };
}

words!(
    wrappers,
    no_wrappers,
    ids,
    secrets,
    error_codes,
    error_messages,
    error_fields,
    field_names,
    test_statuses,
    test_objects,
    opted_in,
    opted_out,
    subscription_statuses,
    record_values,
    record_kinds,
    record_types,
    record_names,
    last_events,
    wishes,
    refusals,
    passed,
    not_passed,
    checks,
    email_fields,
    attachment_fields,
    id_headers,
    id_urls,
    success_words,
    result_codes,
    assents,
    denials,
    error_names,
    status_names,
    failing_words,
    content_fields,
    more_flags,
    last_flags,
    next_fields,
    list_names,
    beside_items,
    totals,
    page_numbers,
    page_sizes,
    page_counts,
    of_failures,
    of_accepted,
    offsets,
    senders,
    unverified,
    not_found,
    not_authenticated,
    conflicts
);

pub(crate) static WORDS: LazyLock<Words<'static>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("words.json")).expect("words.json has these lists")
});
