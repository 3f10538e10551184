//! `svc login`, `logout`, `profiles …`, `whoami`, `doctor` and `config …`

use super::row::{Act, Around, NO, Row, Run, Situation, Stream, YES};

const STAGING: &str = "login --profile staging --email-url $server < key.txt";
const EXTRACTION: &str = "login --service extraction --extraction-url $server < extraction-key.txt";

pub fn rows() -> Vec<Row> {
    use Situation::{MissingKey, MissingScope, NotFound, NothingSetUp, ServiceDown};
    vec![
        Row::here("login", "login --email-url $server < key.txt")
            .wrong("login --service mail --email-url $server < key.txt")
            .with(NothingSetUp, Run::new("login < key.txt", Around::Nothing, 2))
            .only(Stream::Pipe)
            .with(MissingKey, Run::new("login --email-url $server < empty.txt", Around::Nothing, 2))
            .never(MissingScope, "a key that may not read is a key all the same")
            .never(NotFound, "it names nothing by its id")
            .with(ServiceDown, Run::new("login --retries 0 < key.txt", Around::Nobody, 8))
            .also("the extraction service", 0, EXTRACTION)
            .also(
                "a key that the service does not know",
                3,
                "login --email-url $server < wrong-key.txt",
            )
            .also("typed", 0, "login")
            .around(Around::Nothing)
            .only(Stream::Terminal)
            .when("Base address of the email service: ", Act::Type("$server\n"))
            .when("(hidden): ", Act::Type("mk_test_sandbox\n")),
        Row::here("logout", "logout --profile staging")
            .given(STAGING)
            .wrong("logout --service mail")
            .never(NotFound, "forgetting what is not there is no failure")
            .also("nothing to forget", 0, "logout --service extraction --profile staging"),
        Row::here("profiles list", "profiles list")
            .given(STAGING)
            .given(EXTRACTION)
            .wrong("profiles list all")
            .never(NotFound, "it names nothing")
            .also("the environment's profile", 0, "profiles list")
            .env("SVC_PROFILE", "staging"),
        Row::here("profiles use", "profiles use staging")
            .given(STAGING)
            .given(EXTRACTION)
            .wrong("profiles use")
            .never(NotFound, "a profile that does not exist is wrong usage, below")
            .also("a profile that does not exist", 2, "profiles use tpyo"),
        Row::here("profiles remove", "profiles remove staging --yes")
            .given(STAGING)
            .wrong("profiles remove --yes")
            .never(NotFound, "a profile that does not exist is wrong usage, below")
            .also("a profile that does not exist", 2, "profiles remove tpyo --yes")
            .also("asked, and yes", 0, "profiles remove staging")
            .when("[y/N] ", YES)
            .also("asked, and no", 2, "profiles remove staging")
            .when("[y/N] ", NO),
        Row::service("whoami", "whoami")
            .wrong("whoami else")
            .with(MissingScope, Run::new("whoami", Around::OtherScope, 0))
            .never(NotFound, "it names nothing")
            .also("the sandbox", 0, "--sandbox whoami"),
        Row::here("doctor", "--sandbox doctor")
            .given("sandbox clock resume")
            .wrong("doctor please")
            .with(NothingSetUp, Run::new("doctor", Around::Nothing, 0))
            .with(MissingKey, Run::new("doctor", Around::Addresses, 0))
            .with(MissingScope, Run::new("doctor", Around::OtherScope, 0))
            .never(NotFound, "it names nothing")
            .with(ServiceDown, Run::new("doctor --retries 0", Around::Nobody, 10)),
        Row::here("config show", "config show")
            .given(STAGING)
            .wrong("config show all")
            .never(NotFound, "it names nothing")
            .also("a profile", 0, "config show --profile staging")
            .around(Around::Nothing)
            .also("the sandbox", 0, "--sandbox config show"),
        Row::here("config path", "config path")
            .wrong("config path --dry-run")
            .never(NotFound, "it names nothing"),
    ]
}
