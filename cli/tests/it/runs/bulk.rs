//! `svc bulk …`

use super::audiences::AUDIENCE;
use super::row::{NO, Row, Situation, YES};

const JOB: &str = "job=bulk send list.csv --from hello@sandbox.test --subject News --text Hello \
    --yes --jq .job";

pub fn rows() -> Vec<Row> {
    let send = "bulk send list.csv --from hello@sandbox.test --subject";
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
            .also("an audience", 0, "bulk send --audience Newsletter --from hello@sandbox.test --subject 'Hi {{ name }}' --text Hello --yes")
            .also("to oneself", 0, &format!("{send} Hi --text Hello --only-to me@example.test --limit 1 --yes"))
            .also("a dry run", 0, &format!("{send} Hi --text Hello --dry-run"))
            .also("no valid row", 2, &format!("{send} 'Hi {{{{ nickname }}}}' --text Hello --yes"))
            .also("an invalid placeholder", 2, &format!("{send} Hi --text '{{{{ first_name' --yes"))
            .also("a refused sender", 11, "bulk send list.csv --from hello@elsewhere.test --subject Hi --text Hello --yes"),
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
        Row::here("bulk report", "bulk report $job")
            .given(JOB)
            .wrong("bulk report $job --format xml")
            .not_found("bulk report 20200101-000000")
            .also("as NDJSON", 0, "bulk report $job -o ndjson"),
    ]
}
