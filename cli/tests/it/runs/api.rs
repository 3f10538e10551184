//! `svc api`

use super::row::Row;

pub fn rows() -> Vec<Row> {
    vec![
        Row::service("api", "api GET /api/v1/audiences")
            .given(super::audiences::AUDIENCE)
            .wrong("api GET")
            .not_found("api GET /api/v1/audiences/aud_missing")
            .also("creating", 0, "api POST /api/v1/audiences --data '{\"name\": \"Offers\"}'")
            .also("creating from fields", 0, "api POST /api/v1/audiences -f name=Gifts")
            .also("a query", 0, "api GET /api/v1/audiences/$audience/contacts -f pageSize=1")
            .also("status and headers", 0, "api -i get /api/v1/audiences/$audience")
            .also("status and headers as JSON", 2, "api -i GET /api/v1/audiences --json")
            .also("a word that is not a method", 2, "api GTE /api/v1/audiences")
            .also("the other service", 0, "api GET /v1/me")
            .also("a response without a body", 0, "api DELETE /api/v1/audiences/$audience")
            .also("a dry run", 0, "api POST /api/v1/audiences --data '{\"name\": \"Offers\"}' -H 'X-Team: sales' --dry-run")
            .also("every page", 0, "api GET /api/v1/audiences/$audience/contacts --all -o ndjson")
            .also("an unknown path", 5, "api GET /api/v1/nothing"),
    ]
}
