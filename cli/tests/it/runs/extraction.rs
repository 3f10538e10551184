//! `svc extraction …`

use super::row::{NO, Row, Situation, YES};

const HOOK: &str =
    "hook=extraction webhooks create $application --event extraction.completed --jq .id";

pub fn rows() -> Vec<Row> {
    vec![
        Row::service(
            "extraction webhooks create",
            "extraction webhooks create https://shop.test/hooks --event extraction.completed",
        )
        .wrong("extraction webhooks create https://shop.test/hooks --event completed")
        .never(Situation::NotFound, "it takes no id"),
        Row::service("extraction webhooks list", "extraction webhooks list")
            .given(HOOK)
            .wrong("extraction webhooks list all")
            .never(Situation::NotFound, "it takes no id"),
        Row::service("extraction webhooks get", "extraction webhooks get $hook")
            .given(HOOK)
            .wrong("extraction webhooks get")
            .not_found("extraction webhooks get whk_missing"),
        Row::service(
            "extraction webhooks delete",
            "extraction webhooks delete $hook --yes",
        )
        .given(HOOK)
        .wrong("extraction webhooks delete --yes")
        .not_found("extraction webhooks delete whk_missing --yes")
        .also("confirmed", 0, "extraction webhooks delete $hook")
        .when("[y/N] ", YES)
        .also("not confirmed", 2, "extraction webhooks delete $hook")
        .when("[y/N] ", NO),
    ]
}
