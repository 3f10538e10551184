//! `svc login`, `logout`, `profiles …`, `whoami`, `doctor` and `config …`

use super::row::{Act, NO, Row, Run, Setup, Situation, Stream, YES};

const STAGING: &str = "login --profile staging --email-url $server < key.txt";
const EXTRACTION: &str = "login --service extraction --extraction-url $server < extraction-key.txt";

pub fn rows() -> Vec<Row> {
    use Situation::{MissingKey, MissingScope, NotFound, NothingSetUp, ServiceDown};
    vec![
        Row::here("login", "login --email-url $server < key.txt")
            .wrong("login --service mail --email-url $server < key.txt")
            .with(NothingSetUp, Run::new("login < key.txt", Setup::Nothing, 2))
            .only(Stream::Pipe)
            .with(
                MissingKey,
                Run::new("login --email-url $server < empty.txt", Setup::Nothing, 2),
            )
            .never(MissingScope, "a key without the scope is still valid")
            .never(NotFound, "it takes no id")
            .with(
                ServiceDown,
                Run::new("login --retries 0 < key.txt", Setup::Unreachable, 8),
            )
            .also("the extraction service", 0, EXTRACTION)
            .also(
                "an unknown key",
                3,
                "login --email-url $server < wrong-key.txt",
            )
            .also("typed", 0, "login")
            .setup(Setup::Nothing)
            .only(Stream::Terminal)
            .when("Base URL of the email service: ", Act::Type("$server\n"))
            .when("(hidden): ", Act::Type("mk_test_sandbox\n")),
        Row::here("logout", "logout --profile staging")
            .given(STAGING)
            .wrong("logout --service mail")
            .never(NotFound, "deleting no key is not a failure")
            .also(
                "no stored key",
                0,
                "logout --service extraction --profile staging",
            ),
        Row::here("profiles list", "profiles list")
            .given(STAGING)
            .given(EXTRACTION)
            .wrong("profiles list all")
            .never(NotFound, "it takes no id")
            .also("the environment's profile", 0, "profiles list")
            .env("SVC_PROFILE", "staging"),
        Row::here("profiles use", "profiles use staging")
            .given(STAGING)
            .given(EXTRACTION)
            .wrong("profiles use")
            .never(NotFound, "an unknown profile is a usage error, see below")
            .also("an unknown profile", 2, "profiles use tpyo"),
        Row::here("profiles remove", "profiles remove staging --yes")
            .given(STAGING)
            .wrong("profiles remove --yes")
            .never(NotFound, "an unknown profile is a usage error, see below")
            .also("an unknown profile", 2, "profiles remove tpyo --yes")
            .also("confirmed", 0, "profiles remove staging")
            .when("[y/N] ", YES)
            .also("not confirmed", 2, "profiles remove staging")
            .when("[y/N] ", NO),
        Row::service("whoami", "whoami")
            .wrong("whoami else")
            .with(MissingScope, Run::new("whoami", Setup::OtherScope, 0))
            .never(NotFound, "it takes no id")
            .also("the sandbox", 0, "--sandbox whoami"),
        Row::here("doctor", "--sandbox doctor")
            .given("sandbox clock resume")
            .wrong("doctor please")
            .with(NothingSetUp, Run::new("doctor", Setup::Nothing, 10))
            .with(MissingKey, Run::new("doctor", Setup::BaseUrls, 0))
            .with(MissingScope, Run::new("doctor", Setup::OtherScope, 0))
            .never(NotFound, "it takes no id")
            .with(
                ServiceDown,
                Run::new("doctor --retries 0", Setup::Unreachable, 10),
            ),
        Row::service("conform", "conform --yes --jq .level")
            .wrong("conform --level all")
            .with(
                MissingScope,
                Run::new("conform --yes --jq .level", Setup::OtherScope, 0),
            )
            .never(NotFound, "it takes no id")
            .also("without a recipient", 2, "conform --level send --yes")
            .also("nothing to clean up", 0, "conform --clean-up"),
        Row::here("config show", "config show")
            .given(STAGING)
            .wrong("config show all")
            .never(NotFound, "it takes no id")
            .also("a profile", 0, "config show --profile staging")
            .setup(Setup::Nothing)
            .also("the sandbox", 0, "--sandbox config show"),
        Row::here("config set", "config set retries 5")
            .wrong("config set retries many")
            .never(NotFound, "an unknown setting is a usage error, see below")
            .also("an unknown setting", 2, "config set retry 5")
            .also(
                "of a profile",
                0,
                "config set allow_recipients @example.com,me@x.test",
            ),
        Row::here("config unset", "config unset email_url")
            .given(STAGING)
            .wrong("config unset")
            .never(NotFound, "an unknown setting is a usage error, see below")
            .also("an unknown setting", 2, "config unset retry")
            .also("a setting that is not set", 0, "config unset retries"),
        Row::here("config path", "config path")
            .wrong("config path --dry-run")
            .never(NotFound, "it takes no id"),
    ]
}
