//! `svc contacts …`

use super::audiences::AUDIENCE;
use super::row::{NO, Row, YES};

const ADA: &str = "contact=contacts create $audience ada@example.test --name 'Ada Lovelace' \
    --meta plan=pro --topic news --jq .id";

pub fn rows() -> Vec<Row> {
    vec![
        Row::service(
            "contacts create",
            "contacts create $audience ada@example.test --name 'Ada Lovelace' --meta plan=pro --meta seats:=5 --topic news",
        )
        .given(AUDIENCE)
        .wrong("contacts create $audience")
        .not_found("contacts create aud_missing ada@example.test")
        .also("an invalid address", 2, "contacts create $audience nobody"),
        Row::service("contacts list", "contacts list $audience")
            .given(AUDIENCE)
            .given(ADA)
            .given("contacts create $audience bob@example.test")
            .wrong("contacts list")
            .not_found("contacts list aud_missing")
            .also("a page", 0, "contacts list $audience --page 1 --page-size 1")
            .also("every page", 0, "contacts list $audience --all -o ndjson")
            .also("as CSV", 0, "contacts list $audience --all -o csv"),
        Row::service("contacts get", "contacts get $contact")
            .given(AUDIENCE)
            .given(ADA)
            .wrong("contacts get")
            .not_found("contacts get con_missing"),
        Row::service("contacts update", "contacts update $contact --name 'Ada King' --meta seats:=null --subscribed false")
            .given(AUDIENCE)
            .given(ADA)
            .wrong("contacts update $contact --subscribed maybe")
            .not_found("contacts update con_missing --name 'Ada King'")
            .also("nothing to change", 2, "contacts update $contact"),
        Row::service("contacts delete", "contacts delete $contact --yes")
            .given(AUDIENCE)
            .given(ADA)
            .wrong("contacts delete --yes")
            .not_found("contacts delete con_missing --yes")
            .also("confirmed", 0, "contacts delete $contact")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "contacts delete $contact")
            .when("[y/N] ", NO),
        Row::service("contacts import", "contacts import $audience good.csv")
            .given(AUDIENCE)
            .wrong("contacts import $audience")
            .not_found("contacts import aud_missing good.csv")
            .also("a row that fails", 11, "contacts import $audience people.csv")
            .also("a missing file", 2, "contacts import $audience nope.csv"),
    ]
}
