//! `svc bulk …`

use super::audiences::AUDIENCE;
use super::row::{NO, Row, Situation, YES};

const JOB: &str = "job=bulk send list.csv --from hello@sandbox.test --subject News --text Hello \
    --yes --again --jq .job";

pub fn rows() -> Vec<Row> {
    let send = "bulk send list.csv --again --from hello@sandbox.test --subject";
    vec![
        Row::service("bulk send", &format!("{send} 'Hi {{{{ first_name }}}}' --html '<b>{{{{ first_name }}}}</b>' --yes"))
            .given(AUDIENCE)
            .given("contacts create $audience zoe@example.test --name Zoe")
            .wrong("bulk send list.csv --subject Hi --text Hello --yes")
            .not_found("bulk send --audience aud_missing --from hello@sandbox.test --subject Hi --text Hello --yes")
            .also("confirmed", 0, &format!("{send} 'Hi {{{{ first_name }}}}' --text 'Hello {{{{ first_name }}}}'"))
            .when("[y/N] ", YES)
            .wide()
            .also("not confirmed", 2, &format!("{send} Hi --text Hello"))
            .when("[y/N] ", NO)
            .wide()
            .also("an audience", 0, "bulk send --audience Newsletter --again --from hello@sandbox.test --subject 'Hi {{ name }}' --text Hello --yes")
            .also("to oneself", 0, &format!("{send} Hi --text Hello --only-to me@example.test --limit 1 --yes"))
            .also("a dry run", 0, &format!("{send} Hi --text Hello --dry-run"))
            .also("no valid row", 2, &format!("{send} 'Hi {{{{ nickname }}}}' --text Hello --yes"))
            .also("an invalid placeholder", 2, &format!("{send} Hi --text '{{{{ first_name' --yes"))
            .also("a refused sender", 6, "bulk send list.csv --again --from hello@elsewhere.test --subject Hi --text Hello --yes")
            .also("no PostgreSQL", 8, &format!("{send} Hi --text Hello --yes --ledger postgres://svc@127.0.0.1:9/svc")),
        Row::service("bulk work", "bulk work $job")
            .given(JOB)
            .wrong("bulk work --concurrency 0")
            .never(Situation::NothingSetUp, "a job needs a service")
            .never(Situation::MissingKey, "a job needs a key")
            .never(Situation::MissingScope, "see `bulk send`")
            .never(Situation::ServiceDown, "see `bulk send`")
            .not_found("bulk work 20200101-000000")
            .also("no PostgreSQL", 8, "bulk work --ledger postgres://svc@127.0.0.1:9/svc"),
        Row::here("bulk list", "bulk list")
            .given(JOB)
            .wrong("bulk list all")
            .never(Situation::NotFound, "it takes no id"),
        Row::here("bulk status", "bulk status $job")
            .given(JOB)
            .wrong("bulk status")
            .not_found("bulk status 20200101-000000"),
        Row::service("bulk resume", "bulk resume $job")
            .given(JOB)
            .wrong("bulk resume $job --unknown guess")
            .never(Situation::NothingSetUp, "a job needs a service")
            .never(Situation::MissingKey, "a job needs a key")
            .never(Situation::MissingScope, "see `bulk send`")
            .never(Situation::ServiceDown, "see `bulk send`")
            .not_found("bulk resume 20200101-000000"),
        Row::here("bulk pause", "bulk pause $job")
            .given(JOB)
            .never(Situation::Success, "the job is complete")
            .wrong("bulk pause")
            .not_found("bulk pause 20200101-000000")
            .also("complete", 6, "bulk pause $job"),
        Row::here("bulk cancel", "bulk cancel $job")
            .given(JOB)
            .never(Situation::Success, "the job is complete")
            .wrong("bulk cancel")
            .not_found("bulk cancel 20200101-000000")
            .also("complete", 6, "bulk cancel $job"),
        Row::here("bulk settle", "bulk settle $job --sent 2")
            .given(JOB)
            .never(Situation::Success, "no row is unknown")
            .wrong("bulk settle $job")
            .not_found("bulk settle 20200101-000000 --sent 2")
            .also("no unknown row", 2, "bulk settle $job --resend 2"),
        Row::here("bulk remove", "bulk remove $job --yes")
            .given(JOB)
            .wrong("bulk remove")
            .not_found("bulk remove 20200101-000000 --yes")
            .also("confirmed", 0, "bulk remove $job")
            .when("[y/N] ", YES)
            .wide(),
        Row::here("bulk forget", "bulk forget --yes")
            .wrong("bulk forget all")
            .never(Situation::NotFound, "it takes no id")
            .also("confirmed", 0, "bulk forget")
            .when("[y/N] ", YES)
            .wide(),
        Row::here("bulk report", "bulk report $job")
            .given(JOB)
            .wrong("bulk report")
            .not_found("bulk report 20200101-000000")
            .also("as NDJSON", 0, "bulk report $job -o ndjson"),
    ]
}
