//! `svc listen`, `replay`, `trigger`, `certify`, `verify` and `sign`

use super::row::{Act, Row, Run, Setup, Situation};

const SENT: &str = "email=emails send --from hello@sandbox.test --to ada@example.test \
    --subject Hi --text Hello --jq .id";
const SETTLED: &str = "sandbox clock advance 1m";
/// One event, so that there is one delivery: the order of simultaneous ones is not defined.
const BOUNCE: Act = Act::Run("sandbox event $email bounced");

pub fn rows() -> Vec<Row> {
    use Situation::{MissingKey, MissingScope, NotFound, NothingSetUp, ServiceDown};

    let public = "listen --public-url https://shop.test/hooks";
    let down = format!("{public} --retries 0");
    vec![
        Row::here("listen", "--sandbox listen --forward-to $application/hooks")
            .given(SENT)
            .given(SETTLED)
            .when("listening", BOUNCE)
            .when("email.bounced", Act::Signal("-TERM"))
            .wrong("listen --forward-to nowhere")
            .with(NothingSetUp, Run::new(public, Setup::Nothing, 3))
            .with(MissingKey, Run::new(public, Setup::BaseUrls, 3))
            .with(MissingScope, Run::new(public, Setup::OtherScope, 4))
            .never(NotFound, "it takes no id")
            .with(ServiceDown, Run::new(&down, Setup::Unreachable, 8))
            .also("without a secret", 2, "listen")
            .also("a dry run", 0, "listen --public-url https://shop.test/hooks --route email.bounced=$application --dry-run"),
        Row::here("replay", "replay rec_1 --to $application/hooks --secret-file secret.txt")
            .wrong("replay")
            .not_found("replay rec_missing")
            .also("by time", 0, "replay --since 2020-01-01T00:00:00Z --to $application/hooks --secret-file secret.txt")
            .also("no deliveries since then", 0, "replay --since 1h --to $application/hooks")
            .also("with the secret of the profile", 0, "replay evt_1 --to $application/hooks")
            .also("without a target", 2, "replay rec_1 --secret-file secret.txt")
            .also("an application that is down", 8, "replay rec_1 --to http://127.0.0.1:9 --secret-file secret.txt")
            .also("an invalid time", 2, "replay --since someday"),
        Row::here("trigger", "trigger email.bounced --to $application/hooks --secret-file secret.txt --set /id=evt_1")
            .wrong("trigger email.lost --to $application/hooks")
            .never(NotFound, "it takes no id")
            .with(ServiceDown, Run::new("trigger email.bounced --to http://127.0.0.1:9/hooks", Setup::Keys, 8))
            .also("a dry run", 0, "trigger email.bounced --to $application/hooks --set /id=evt_1 --set /data/emailId=eml_1 --dry-run")
            .also("in the sandbox, without a webhook", 0, "--sandbox trigger email.bounced")
            .also("in the sandbox, a dry run", 0, "--sandbox trigger email.bounced --dry-run")
            .also("a pointer that matches nothing", 2, "trigger email.bounced --to $application/hooks --set /nope=1"),
        Row::here("certify", "certify $application/hooks --service email --secret-file secret.txt --only good-delivery --only unknown-event")
            .wrong("certify $application/hooks --service email")
            .never(NotFound, "it takes no id")
            .with(ServiceDown, Run::new("certify http://127.0.0.1:9/hooks --service email --secret-file secret.txt", Setup::Keys, 8))
            .also("a receiver that accepts everything", 10, "certify $application/hooks --service email --secret-file secret.txt --only missing-signature --only old-delivery"),
        Row::here("verify", "verify --service extraction --secret-file secret.txt --signature sha256=$signature body.json")
            .given("signature=sign --service extraction --secret-file secret.txt body.json --jq '.signature | ltrimstr(\"sha256=\")'")
            .wrong("verify --service email body.json")
            .never(NotFound, "it takes no id")
            .also("a mismatch", 10, "verify --service extraction --secret-file secret.txt --signature sha256=$signature notes.txt")
            .also("a mismatch that is explained", 10, "verify --service extraction --secret-file secret.txt --signature $signature body.json")
            .also("a missing file", 2, "verify --service email --secret-file nope.txt --signature x body.json"),
        Row::here("sign", "sign --service email --secret-file secret.txt body.json")
            .wrong("sign --service email body.json")
            .never(NotFound, "it takes no id")
            .also("the header line", 0, "sign --service extraction --secret-file secret.txt --jq .line body.json")
            .also("standard input", 0, "sign --service email --secret-file secret.txt < body.json")
            .also("an empty secret", 2, "sign --service email --secret-file empty.txt body.json"),
    ]
}
