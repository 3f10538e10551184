//! `svc webhooks …`

use super::row::{NO, Row, Situation, YES};

const HOOK: &str =
    "hook=--sandbox webhooks create $application --event email.sent --event email.bounced --jq .id";

pub fn rows() -> Vec<Row> {
    vec![
        Row::service("webhooks create", "webhooks create https://shop.test/hooks --event email.sent --event email.bounced")
            .wrong("webhooks create https://shop.test/hooks --event delivered")
            .never(Situation::NotFound, "it takes no id")
            .also("a URL without TLS", 6, "webhooks create http://shop.test/hooks --event email.sent")
            .also("an unknown event", 6, "webhooks create https://shop.test/hooks --event email.lost"),
        Row::service("webhooks list", "webhooks list")
            .given(HOOK)
            .wrong("webhooks list all")
            .never(Situation::NotFound, "it takes no id"),
        Row::service("webhooks get", "webhooks get $hook")
            .given(HOOK)
            .wrong("webhooks get")
            .not_found("webhooks get whk_missing"),
        Row::service("webhooks update", "webhooks update $hook --active false")
            .given(HOOK)
            .wrong("webhooks update $hook --active maybe")
            .not_found("webhooks update whk_missing --active false")
            .also("nothing to change", 2, "webhooks update $hook"),
        Row::service("webhooks delete", "webhooks delete $hook --yes")
            .given(HOOK)
            .wrong("webhooks delete --yes")
            .not_found("webhooks delete whk_missing --yes")
            .also("confirmed", 0, "webhooks delete $hook")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "webhooks delete $hook")
            .when("[y/N] ", NO),
        Row::service("webhooks test", "webhooks test $hook")
            .given(HOOK)
            .given("deaf=--sandbox webhooks create http://127.0.0.1:9/hooks --event email.sent --jq .id")
            .wrong("webhooks test")
            .not_found("webhooks test whk_missing")
            .also("an endpoint that is down", 10, "webhooks test $deaf"),
    ]
}
