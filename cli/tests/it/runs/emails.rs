//! `svc emails …`

use super::row::{Row, Situation};

const SENT: &str = "email=emails send --from hello@sandbox.test --to ada@example.test \
    --subject Hi --text Hello --jq .id";
const SCHEDULED: &str = "email=emails send --from hello@sandbox.test --to ada@example.test \
    --subject Hi --text Hello --at +2h --jq .id";

pub fn rows() -> Vec<Row> {
    let send = "emails send --from hello@sandbox.test --to ada@example.test --subject Hi";
    vec![
        Row::service("emails send", &format!("{send} --text Hello"))
            .wrong("emails send --from hello@sandbox.test --title Hi --text Hello")
            .never(Situation::NotFound, "the only id is of a template, and an unknown template is an invalid email")
            .also("an unknown template", 6, &format!("{send} --template nope"))
            .also("the sandbox", 0, &format!("--sandbox {send} --text Hello --jq .status"))
            .also("a dry run", 0, &format!("{send} --html <p>Hello</p> --dry-run --idempotency-key once"))
            .also("every field of an email", 0, &format!(
                "{send} --cc bob@example.test --bcc eve@example.test --reply-to help@sandbox.test \
                 --html @report.html --attach 'notes.txt;name=Notes.txt' --header 'X-Team: sales' --tag plan=pro --at +2h"
            ))
            .also("a body from a file", 0, "emails send --body @email.json --jq '.id, .status'")
            .also("an unverified sender", 6,
                "--sandbox emails send --from hello@elsewhere.test --to ada@example.test --subject Hi --text Hello")
            .also("an invalid address", 2,
                "emails send --from hello@sandbox.test --to nobody --subject Hi --text Hello")
            .also("several addresses in one value", 2,
                "emails send --from hello@sandbox.test --to ada@example.test,bob@example.test --subject Hi --text Hello")
            .also("a missing file", 2, &format!("{send} --html @nope.html"))
            .also("an invalid time", 2, &format!("{send} --text Hello --at someday"))
            .also("--at in words", 0, &format!("{send} --text Hello --at +2h")),
        Row::service("emails batch", "emails batch emails.json")
            .wrong("emails batch")
            .never(Situation::NotFound, "a batch takes no id")
            .also("one email refused", 11, "emails batch partly.ndjson")
            .also("as NDJSON", 0, "emails batch - -o ndjson < emails.json")
            .also("a missing file", 2, "emails batch nope.json")
            .also("a file without emails", 2, "emails batch notes.txt"),
        Row::service("emails get", "emails get $email")
            .given(SENT)
            .given("sandbox clock advance 1m")
            .wrong("emails get")
            .not_found("emails get eml_missing")
            .also("one field", 0, "emails get $email --jq .status")
            .also("in another time zone", 0, "emails get $email").env("TZ", "Asia/Kathmandu")
            .also("without colors", 0, "emails get $email").env("NO_COLOR", "1")
            .also("waiting for the final status", 0, "emails get $email --wait"),
        Row::service("emails cancel", "emails cancel $email")
            .given(SCHEDULED)
            .wrong("emails cancel")
            .never(Situation::MissingScope, "the scope is not documented, and the server accepts any key")
            .not_found("emails cancel eml_missing")
            .also("a dry run", 0, "emails cancel $email --dry-run"),
    ]
}
