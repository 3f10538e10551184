//! Every leaf in every situation, piped and on a terminal: what it prints and
//! its exit code, in one snapshot for each leaf.
//!
//! A leaf has a row in one of the tables below, and a row says of each
//! situation what is run, or why it cannot come about. What differs from run to
//! run (ids, times, ports, keys) is masked.

mod api;
mod audiences;
mod contacts;
mod deliver;
mod domains;
mod emails;
mod examples;
mod extraction;
mod local;
mod mask;
mod profiles;
mod row;
mod sandbox;
mod scene;
mod webhooks;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use row::{Act, Case, Row, Run, Situation, Stream};
use scene::{Left, World};

/// Every table; each is a test of its own, so that they run at once.
const TABLES: &[fn() -> Vec<Row>] = &[
    emails::rows,
    audiences::rows,
    contacts::rows,
    domains::rows,
    webhooks::rows,
    extraction::rows,
    profiles::rows,
    deliver::rows,
    api::rows,
    sandbox::server_rows,
    sandbox::mail_rows,
    sandbox::control_rows,
    local::rows,
];

macro_rules! tables {
    ($($name:ident: $rows:path;)*) => {$(
        #[test]
        fn $name() {
            check(&$rows());
        }
    )*};
}

tables! {
    emails: emails::rows;
    audiences: audiences::rows;
    contacts: contacts::rows;
    domains: domains::rows;
    webhooks: webhooks::rows;
    extraction: extraction::rows;
    profiles: profiles::rows;
    deliver: deliver::rows;
    api: api::rows;
    sandbox_server: sandbox::server_rows;
    sandbox_mail: sandbox::mail_rows;
    sandbox_control: sandbox::control_rows;
    local: local::rows;
}

#[test]
fn every_leaf_has_a_row_that_is_silent_about_no_situation() {
    let rows = TABLES.iter().flat_map(|rows| rows()).collect::<Vec<_>>();
    for leaf in svc_cli::COMMANDS {
        let of_leaf = rows.iter().filter(|row| row.leaf == leaf.path).collect::<Vec<_>>();
        assert_eq!(of_leaf.len(), 1, "`{}` has no row, or two", leaf.path);
        for situation in Situation::ALL {
            let said = of_leaf[0].cases.iter().filter(|(kept, _)| *kept == situation).count();
            assert_eq!(
                said,
                1,
                "`{}` does not say what happens in: {}",
                leaf.path,
                situation.name()
            );
        }
        if leaf.effect == svc_cli::Effect::Dangerous {
            let asked = |run: &Run| run.cues.iter().any(|(text, _)| *text == "[y/N] ");
            let asks = of_leaf[0]
                .cases
                .iter()
                .any(|(_, case)| matches!(case, Case::Run(run) if asked(run)));
            assert!(asks, "`{}` is never seen asking", leaf.path);
        }
    }
    assert_eq!(rows.len(), svc_cli::COMMANDS.len(), "a row without a leaf");
}

#[test]
fn no_snapshot_is_left_over() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/runs/snapshots");
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let leaf = name.trim_end_matches(".snap").replace('-', " ");
        let known = svc_cli::COMMANDS.iter().any(|known| known.path == leaf);
        assert!(known || name.ends_with(".snap.new"), "{name} belongs to no leaf");
    }
}

fn check(rows: &[Row]) {
    let world = World::start();
    let mut wrong = Vec::new();
    for row in rows {
        let text = played(&world, row, &mut wrong);
        let compared = catch_unwind(AssertUnwindSafe(|| {
            insta::with_settings!({
                prepend_module_to_snapshot => false,
                snapshot_path => "snapshots",
                omit_expression => true,
            }, {
                insta::assert_snapshot!(row.leaf.replace(' ', "-"), text);
            });
        }));
        if compared.is_err() {
            // insta has shown what differs; the other leaves are to be seen too.
            wrong.push(format!("`{}` differs from its snapshot", row.leaf));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Everything that is to be seen of a leaf.
fn played(world: &World, row: &Row, wrong: &mut Vec<String>) -> String {
    let mut text = format!("svc {}\n", row.leaf);
    let mut cases = row.cases.iter().collect::<Vec<_>>();
    let place = |situation: &Situation| Situation::ALL.iter().position(|s| s == situation);
    cases.sort_by_key(|(situation, _)| place(situation).unwrap_or(Situation::ALL.len()));
    for (situation, case) in cases {
        let _ = write!(text, "\n=== {}", situation.name());
        let run = match case {
            Case::Never(why) => {
                let _ = writeln!(text, ": never, {why}");
                continue;
            }
            Case::Run(run) => run,
        };
        text.push('\n');
        if run.only != Some(Stream::Terminal) {
            let mut scene = scene_of(world, row, *situation);
            let left = scene.piped(row.leaf, run);
            let _ = writeln!(text, "$ svc {}", scene.shown(&run.line));
            let _ = writeln!(text, "--- piped, exit code {}", left.code);
            text.push_str(&shortened(&left.stdout, run.head));
            if !left.stderr.is_empty() {
                text.push_str("--- standard error\n");
                text.push_str(&left.stderr);
            }
            wrong.extend(problems(row, *situation, run, &left, Stream::Pipe));
        }
        if run.only != Some(Stream::Pipe) {
            let mut scene = scene_of(world, row, *situation);
            let left = scene.on_terminal(row.leaf, run);
            if run.only == Some(Stream::Terminal) {
                let _ = writeln!(text, "$ svc {}", scene.shown(&run.line));
            }
            let _ = writeln!(text, "--- on a terminal, exit code {}", left.code);
            text.push_str(&shortened(&left.stdout, run.head));
            wrong.extend(problems(row, *situation, run, &left, Stream::Terminal));
        }
    }
    text
}

/// The server and a home; what comes first has happened where it matters.
fn scene_of<'w>(world: &'w World, row: &Row, situation: Situation) -> scene::Scene<'w> {
    let mut scene = world.scene();
    if matches!(situation, Situation::Success | Situation::Also(_)) {
        for line in &row.given {
            scene.prepare(line);
        }
    }
    scene
}

/// What holds of every run, whatever the snapshot says.
fn problems(
    row: &Row,
    situation: Situation,
    run: &Run,
    left: &Left,
    stream: Stream,
) -> Vec<String> {
    let mut found = Vec::new();
    let asked = run.cues.iter().any(|(_, act)| matches!(act, Act::Type(_)));
    // Without a terminal a question is a refusal.
    let code = if asked && stream == Stream::Pipe { 2 } else { run.code };
    if left.code != code {
        found.push(format!("the exit code is {} instead of {code}", left.code));
    }
    for secret in SECRETS {
        if left.stderr.contains(secret) {
            found.push("a secret is in standard error".to_owned());
        }
    }
    if stream == Stream::Pipe && left.code != 0 && !run.line.contains("-o table") {
        let last = left.stderr.lines().last().unwrap_or_default();
        let object = serde_json::from_str::<Value>(last).unwrap_or_default();
        if !object["error"]["kind"].is_string() {
            found.push("standard error does not end with an error object".to_owned());
        }
    }
    let name = situation.name();
    let said = format!("{}{}", left.stdout, left.stderr);
    found.iter().map(|what| format!("`{}`, {name}: {what}:\n{said}", row.leaf)).collect()
}

/// What nobody is to see on standard error.
const SECRETS: [&str; 3] = ["mk_test_", "sk_test_", "3f1c"];

fn shortened(text: &str, head: Option<usize>) -> String {
    let Some(head) = head else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "[no newline]\n" };
        return format!("{text}{end}");
    };
    let mut lines = text.lines();
    let mut shown = lines.by_ref().take(head).fold(String::new(), |all, line| all + line + "\n");
    if lines.next().is_some() {
        shown.push_str("[and so on]\n");
    }
    shown
}
