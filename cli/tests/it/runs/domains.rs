//! `svc domains …`

use super::row::{NO, Row, Situation, YES};

const SHOP: &str = "domain=domains create shop.test --jq .id";
/// The seeded domain. Creating one takes 0.3 s, because the server generates a DKIM key.
const SEEDED: &str = "domain=domains list --jq .[0].id";

pub fn rows() -> Vec<Row> {
    vec![
        Row::service("domains create", "--sandbox domains create shop.test")
            .wrong("domains create")
            .never(Situation::NotFound, "it takes no id")
            .also("an invalid name", 6, "domains create -- -shop"),
        Row::service("domains list", "domains list")
            .given(SHOP)
            .wrong("domains list all")
            .never(Situation::NotFound, "it takes no id"),
        Row::service("domains get", "domains get $domain")
            .given(SEEDED)
            .wrong("domains get")
            .not_found("domains get dom_missing"),
        Row::service("domains verify", "--sandbox domains verify $domain")
            .given(SEEDED)
            .given("other=domains create other.test --jq .id")
            .given("sandbox dns publish other.test --record spf --record mx")
            .wrong("domains verify")
            .not_found("domains verify dom_missing")
            .also(
                "half of the records published",
                10,
                "--sandbox domains verify $other",
            ),
        Row::service("domains records", "--sandbox domains records $domain")
            .given(SHOP)
            .given("sandbox dns publish shop.test --record spf")
            .wrong("domains records $domain -o xml")
            .not_found("domains records dom_missing")
            .also("as a zone file", 0, "domains records $domain -o bind")
            .also("as Terraform", 0, "domains records $domain -o terraform"),
        Row::service("domains delete", "domains delete $domain --yes")
            .given(SEEDED)
            .wrong("domains delete --yes")
            .not_found("domains delete dom_missing --yes")
            .also("confirmed", 0, "domains delete $domain")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "domains delete $domain")
            .when("[y/N] ", NO),
    ]
}
