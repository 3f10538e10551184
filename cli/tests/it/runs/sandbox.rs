//! `svc sandbox …`

use super::row::{Act, NO, Row, Run, Setup, Situation, YES};

const SENT: &str = "email=emails send --from hello@sandbox.test --to ada@example.test \
    --subject Hi --html '<a href=https://shop.test/now>Now</a>' --text Hello --jq .id";
const SETTLED: &str = "sandbox clock advance 1m";
const MESSAGE: &str = "message=sandbox messages list --jq .[0].id";
const HOOK: &str =
    "hook=--sandbox webhooks create $application/hooks --event email.delivered --jq .id";
const WATCHED: Act = Act::Run("--sandbox audiences list");
const DELIVERY: &str = "delivery=sandbox deliveries list --jq .[0].id";

/// The server itself, and its clock.
pub fn server_rows() -> Vec<Row> {
    use Situation::NotFound;
    vec![
        Row::control(
            "sandbox serve",
            "sandbox serve --addr 127.0.0.1:0 --in-memory -q",
        )
        .when("http", Act::Signal("-TERM"))
        .wrong("sandbox serve --addr here")
        .never(NotFound, "it takes no id")
        .also(
            "stopped by another command",
            0,
            "sandbox serve --addr 127.0.0.1:0 -q",
        )
        .env("SVC_SANDBOX_DIR", "other")
        .when("http", Act::Run("sandbox stop"))
        .also(
            "a data directory in use",
            1,
            "sandbox serve --addr 127.0.0.1:0",
        )
        .also(
            "an unknown switch value",
            2,
            "sandbox serve --set create-status=418",
        ),
        Row::control("sandbox exec", "sandbox exec -- true")
            .wrong("sandbox exec")
            .never(NotFound, "it takes no id")
            .also(
                "a command that does not exist",
                2,
                "sandbox exec -- no-such-program",
            ),
        Row::control("sandbox status", "sandbox status")
            .wrong("sandbox status now")
            .never(NotFound, "it takes no id")
            .also("not running", 1, "sandbox status")
            .env("SVC_SANDBOX_DIR", "other")
            // No server of the developer.
            .env("SVC_SANDBOX_ADDR", "127.0.0.1:1"),
        Row::control("sandbox open", "sandbox open")
            .env("BROWSER", "true")
            .wrong("sandbox open now")
            .not_found("sandbox open --organization Nobody --print")
            .also("without a browser", 0, "sandbox open")
            .env("BROWSER", "false")
            .also("not running", 1, "sandbox open")
            .env("SVC_SANDBOX_DIR", "other")
            // No server of the developer.
            .env("SVC_SANDBOX_ADDR", "127.0.0.1:1"),
        Row::control("sandbox stop", "sandbox stop")
            .env("SVC_SANDBOX_DIR", "other")
            .wrong("sandbox stop now")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox reset", "sandbox reset --yes")
            .wrong("sandbox reset --yes --email-url http://127.0.0.1:9")
            .not_found("sandbox reset --organization Nobody --yes")
            .also("confirmed", 0, "sandbox reset")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "sandbox reset")
            .when("[y/N] ", NO),
        Row::control("sandbox export", "sandbox export")
            .wrong("sandbox export now")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox clock show", "sandbox clock show")
            .wrong("sandbox clock show now")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox clock freeze", "sandbox clock freeze")
            .wrong("sandbox clock freeze now")
            .never(NotFound, "it takes no id")
            .also("a dry run", 0, "sandbox clock freeze --dry-run"),
        Row::control("sandbox clock advance", "sandbox clock advance 2m")
            .wrong("sandbox clock advance far")
            .not_found("sandbox clock advance 2m --dry-run --organization Nobody")
            .also("a dry run", 0, "sandbox clock advance 24h --dry-run"),
        Row::control("sandbox clock resume", "sandbox clock resume")
            .wrong("sandbox clock resume now")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox clock real", "sandbox clock real")
            .wrong("sandbox clock real now")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox due", "sandbox due")
            .given("emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --at +1h")
            .given("emails send --from hello@sandbox.test --to delayed@example.test --subject Hi --text Hello")
            .wrong("sandbox due now")
            .not_found("sandbox due --organization Nobody"),
        Row::control("sandbox settle", "sandbox settle")
            .wrong("sandbox settle down")
            .never(NotFound, "it takes no id"),
        Row::control(
            "sandbox faults add",
            "sandbox faults add --operation emails.send --status 503 --times 2",
        )
        .wrong("sandbox faults add --drop never")
        .never(NotFound, "it takes no id")
        .also(
            "an unknown operation",
            6,
            "sandbox faults add --operation emails.lost --status 503",
        ),
        Row::control("sandbox faults list", "sandbox faults list")
            .given("sandbox faults add --operation emails.send --status 503 --times 2")
            .given("sandbox faults add --latency 2s")
            .wrong("sandbox faults list all")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox faults get", "sandbox faults get $fault")
            .given("fault=sandbox faults add --operation emails.send --status 503 --jq .id")
            .wrong("sandbox faults get")
            .not_found("sandbox faults get flt_missing"),
        Row::control("sandbox faults remove", "sandbox faults remove $fault")
            .given("fault=sandbox faults add --drop after --jq .id")
            .wrong("sandbox faults remove $fault two")
            .not_found("sandbox faults remove flt_missing")
            .also("all faults", 0, "sandbox faults remove"),
    ]
}

/// Mail and deliveries.
pub fn mail_rows() -> Vec<Row> {
    use Situation::NotFound;
    vec![
        Row::control("sandbox templates put", "sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html")
            .wrong("sandbox templates put")
            .never(NotFound, "it creates what it names")
            .also("an invalid template", 6, "sandbox templates put welcome --text '{{ name'"),
        Row::control("sandbox templates list", "sandbox templates list")
            .given("sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html")
            .wrong("sandbox templates list all")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox templates get", "sandbox templates get welcome")
            .given("sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html")
            .wrong("sandbox templates get")
            .not_found("sandbox templates get nope"),
        Row::control("sandbox templates render", "sandbox templates render welcome --var name=Ada")
            .given("sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html")
            .wrong("sandbox templates render welcome --vars x")
            .not_found("sandbox templates render nope")
            .also("a variable without a value", 6, "sandbox templates render welcome"),
        Row::control("sandbox templates delete", "sandbox templates delete welcome --yes")
            .given("sandbox templates put welcome --subject Hi --text Hello")
            .wrong("sandbox templates delete --yes")
            .not_found("sandbox templates delete nope --yes")
            .also("confirmed", 0, "sandbox templates delete welcome")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "sandbox templates delete welcome")
            .when("[y/N] ", NO),
        Row::control("sandbox requests list", "sandbox requests list")
            .wide()
            .given(SENT)
            .wrong("sandbox requests list --operation emails.fetch")
            .never(NotFound, "it takes no id")
            .also("no match", 0, "sandbox requests list --status 5xx"),
        Row::control("sandbox requests get", "sandbox requests get $request")
            .wide()
            .given(SENT)
            .given("request=sandbox requests list --jq .[0].id")
            .wrong("sandbox requests get")
            .not_found("sandbox requests get req_missing"),
        Row::control("watch", "watch")
            .when("ready", WATCHED)
            .when("/api/v1/audiences", Act::Signal("-TERM"))
            .wrong("watch emails")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox emails list", "sandbox emails list")
            .wide()
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox emails list --status lost")
            .never(NotFound, "it takes no id")
            .also("no match", 0, "sandbox emails list --status bounced"),
        Row::control("sandbox emails story", "sandbox emails story $email")
            .wide()
            .given(HOOK)
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox emails story")
            .not_found("sandbox emails story eml_missing"),
        Row::control("sandbox messages list", "sandbox messages list")
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox messages list --limit many")
            .never(NotFound, "it takes no id")
            .also("no match", 0, "sandbox messages list --to nobody@example.test"),
        Row::control("sandbox messages wait", "sandbox messages wait --to ada@example.test")
            .wide()
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox messages wait for me")
            .never(NotFound, "it waits instead")
            .also("without a match", 8, "sandbox messages wait --to nobody@example.test --timeout 100ms"),
        Row::control("sandbox messages get", "sandbox messages get $message")
            .wide()
            .given(SENT)
            .given(SETTLED)
            .given(MESSAGE)
            .wrong("sandbox messages get $message --raw --links")
            .not_found("sandbox messages get msg_missing")
            .also("the links", 0, "sandbox messages get $message --links")
            .also("the HTML body", 0, "sandbox messages get $message --html")
            .also("without attachments", 0, "sandbox messages get $message --attachments saved"),
        Row::control("sandbox messages check", "sandbox messages check $message")
            .wide()
            .given(SENT)
            .given(SETTLED)
            .given(MESSAGE)
            .wrong("sandbox messages check")
            .not_found("sandbox messages check msg_missing"),
        Row::control("sandbox messages delete", "sandbox messages delete $message --yes")
            .given(SENT)
            .given(SETTLED)
            .given(MESSAGE)
            .wrong("sandbox messages delete $message --to ada@example.test")
            .not_found("sandbox messages delete msg_missing --yes")
            .also("all messages", 0, "sandbox messages delete")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "sandbox messages delete --to ada@example.test")
            .when("[y/N] ", NO)
            .also("a dry run", 0, "sandbox messages delete --to ada@example.test --dry-run"),
        Row::control(
            "sandbox messages release",
            "sandbox messages release $message --to me@example.com",
        )
        .given(SENT)
        .given(SETTLED)
        .given(MESSAGE)
        .wrong("sandbox messages release $message")
        .with(
            Situation::Success,
            Run::new(
                "sandbox messages release $message --to me@example.com",
                Setup::Keys,
                6,
            ),
        )
        .never(NotFound, "without a relay, that is said first"),
        Row::control("sandbox messages open", "sandbox messages open $message")
            .given(SENT)
            .given(SETTLED)
            .given(MESSAGE)
            .env("BROWSER", "true")
            .wrong("sandbox messages open")
            .not_found("sandbox messages open msg_missing"),
        Row::control("sandbox event", "sandbox event $email bounced --detail 'mailbox full'")
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox event $email lost")
            .not_found("sandbox event eml_missing bounced")
            .also("an invalid type", 6, "sandbox event $email bounced --detail '{\"type\":\"late\"}'"),
        Row::control("sandbox inbound", "sandbox inbound --from ada@example.test --to hello@sandbox.test --subject Hi --text Hello")
            .wrong("sandbox inbound --from ada@example.test")
            .never(NotFound, "it takes no id")
            .also("a message from a file", 0, "sandbox inbound --raw message.eml")
            .also("an unverified domain", 6, "sandbox inbound --from ada@example.test --to hello@elsewhere.test --subject Hi"),
        Row::control("sandbox extraction", "sandbox extraction completed --data '{\"total\": 12}'")
            .wrong("sandbox extraction halfway")
            .never(NotFound, "it takes no id"),
        Row::control("sandbox deliveries list", "sandbox deliveries list")
            .given(HOOK)
            .given(SENT)
            .given(SETTLED)
            .wrong("sandbox deliveries list all")
            .never(NotFound, "it takes no id")
            .also("no match", 0, "sandbox deliveries list --event email.bounced"),
        Row::control("sandbox deliveries get", "sandbox deliveries get $delivery")
            .wide()
            .given(HOOK)
            .given(SENT)
            .given(SETTLED)
            .given(DELIVERY)
            .wrong("sandbox deliveries get")
            .not_found("sandbox deliveries get nope"),
        Row::control("sandbox deliveries replay", "sandbox deliveries replay $delivery")
            .given(HOOK)
            .given(SENT)
            .given(SETTLED)
            .given(DELIVERY)
            .wrong("sandbox deliveries replay")
            .not_found("sandbox deliveries replay nope"),
    ]
}

/// Organizations, keys, DNS.
pub fn control_rows() -> Vec<Row> {
    use Situation::NotFound;
    vec![
        Row::control(
            "sandbox organizations create",
            "sandbox organizations create --name Test --balance-cents 1250",
        )
        .wrong("sandbox organizations create Test --name Other")
        .never(NotFound, "it takes no id")
        .also(
            "inside the command",
            0,
            "sandbox organizations create --name Test --jq .name",
        )
        .env("SVC_SANDBOX_DIR", "other"),
        Row::control("sandbox organizations list", "sandbox organizations list")
            .wrong("sandbox organizations list all")
            .never(NotFound, "it takes no id"),
        Row::control(
            "sandbox keys create",
            "sandbox keys create --service email --scope emails:send --scope emails:read",
        )
        .wrong("sandbox keys create --service email")
        .not_found("sandbox keys create --service email --scope emails:send --organization Nobody")
        .also(
            "an unknown scope",
            6,
            "sandbox keys create --service email --scope emails:lose",
        ),
        Row::control("sandbox keys list", "sandbox keys list")
            .wrong("sandbox keys list all")
            .not_found("sandbox keys list --organization Nobody"),
        Row::control("sandbox keys delete", "sandbox keys delete $key --yes")
            .given("key=sandbox keys create --service extraction --scope extract_only --jq .id")
            .wrong("sandbox keys delete --yes")
            .not_found("sandbox keys delete key_missing --yes")
            .also("confirmed", 0, "sandbox keys delete $key")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "sandbox keys delete $key")
            .when("[y/N] ", NO),
        Row::control("sandbox dns publish", "sandbox dns publish sandbox.test")
            .wrong("sandbox dns publish sandbox.test --record txt")
            .not_found("sandbox dns publish other.test"),
        Row::control(
            "sandbox dns withdraw",
            "sandbox dns withdraw sandbox.test spf",
        )
        .wrong("sandbox dns withdraw sandbox.test txt")
        .not_found("sandbox dns withdraw other.test"),
    ]
}
