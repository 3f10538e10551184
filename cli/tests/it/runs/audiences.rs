//! `svc audiences …`

use super::row::{NO, Row, Situation, YES};

pub const AUDIENCE: &str = "audience=audiences create Newsletter --jq .id";

pub fn rows() -> Vec<Row> {
    vec![
        Row::service("audiences create", "audiences create Newsletter")
            .wrong("audiences create")
            .never(Situation::NotFound, "it takes no id")
            .also("a dry run", 0, "audiences create Newsletter --dry-run"),
        Row::service("audiences list", "audiences list")
            .given(AUDIENCE)
            .given("audiences create Offers")
            .wrong("audiences list all")
            .never(Situation::NotFound, "it takes no id")
            .also("as NDJSON", 0, "audiences list -o ndjson")
            .also("one field of each item", 0, "audiences list --jq .[].name")
            .also("an invalid filter", 2, "audiences list --jq .[")
            .also("verbose", 0, "audiences list -v --jq length"),
        Row::service("audiences get", "audiences get $audience")
            .given(AUDIENCE)
            .wrong("audiences get")
            .not_found("audiences get aud_missing"),
        Row::service("audiences delete", "audiences delete $audience --yes")
            .given(AUDIENCE)
            .wrong("audiences delete --yes")
            .not_found("audiences delete aud_missing --yes")
            .also("confirmed", 0, "audiences delete $audience")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "audiences delete $audience")
            .when("[y/N] ", NO),
    ]
}
