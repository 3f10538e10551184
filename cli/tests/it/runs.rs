//! Snapshots of the output and exit code of every command in every situation, piped and on a
//! terminal.
//!
//! Each leaf command has a row in one of the tables below. For each situation a row has a command
//! line, or the reason why the situation cannot occur. Values that differ between runs (ids, times,
//! ports, keys) are masked.

mod api;
mod audiences;
mod bulk;
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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;
use svc_cli::{CommandSpec, Effect};

use row::{Act, Case, Row, Run, Situation, Stream};
use scene::{Outcome, Scene, World};

/// All tables. Each is a separate test, so that they run in parallel.
const TABLES: &[fn() -> Vec<Row>] = &[
    emails::rows,
    bulk::rows,
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
    bulk: bulk::rows;
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
fn every_command_has_a_row_that_covers_every_situation() {
    let rows = TABLES.iter().flat_map(|rows| rows()).collect::<Vec<_>>();
    for spec in svc_cli::commands() {
        let matching = rows
            .iter()
            .filter(|row| row.command == spec.path)
            .collect::<Vec<_>>();
        assert_eq!(
            matching.len(),
            1,
            "`{}` must have exactly one row",
            spec.path
        );
        for situation in Situation::ALL {
            let cases = matching[0]
                .cases
                .iter()
                .filter(|(kept, _)| *kept == situation)
                .count();
            assert_eq!(
                cases,
                1,
                "`{}` must have exactly one case for: {}",
                spec.path,
                situation.name()
            );
        }
        if spec.effect == Effect::Removes {
            let asked = |run: &Run| run.cues.iter().any(|(text, _)| *text == "[y/N] ");
            let asks = matching[0]
                .cases
                .iter()
                .any(|(_, case)| matches!(case, Case::Run(run) if asked(run)));
            assert!(asks, "`{}` has no case with its confirmation", spec.path);
        }
    }
    assert_eq!(
        rows.len(),
        svc_cli::commands().len(),
        "a row without a command"
    );
}

#[test]
fn every_snapshot_has_a_command() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/runs/snapshots");
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8");
        let path = name.trim_end_matches(".snap").replace('-', " ");
        let known = svc_cli::commands().iter().any(|spec| spec.path == path);
        assert!(
            known || name.ends_with(".snap.new"),
            "{name} belongs to no command"
        );
    }
}

/// Number of servers, and threads, that share the work of a test.
const WORKERS: usize = 3;

/// Calls `work` for every item, in several threads with a server each, and returns the results in
/// the order of the items. Most of the time of a run is spent waiting for another process.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&World, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(items.len()) {
            scope.spawn(|| {
                let world = World::start();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(&world, item);
                    results.lock().expect("no panic").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn check(rows: &[Row]) {
    let texts = in_parallel(rows, |world, row| {
        let mut wrong = Vec::new();
        let text = play(world, row, &mut wrong);
        (text, wrong)
    });
    let mut wrong = Vec::new();
    for (row, (text, problems)) in rows.iter().zip(texts) {
        wrong.extend(problems);
        let compared = catch_unwind(AssertUnwindSafe(|| {
            insta::with_settings!({
                prepend_module_to_snapshot => false,
                snapshot_path => "runs/snapshots",
                omit_expression => true,
            }, {
                insta::assert_snapshot!(row.command.replace(' ', "-"), text);
            });
        }));
        if compared.is_err() {
            // insta has printed the difference. The other rows are compared as well.
            wrong.push(format!("`{}` differs from its snapshot", row.command));
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs all cases of a row and returns the text of its snapshot.
fn play(world: &World, row: &Row, wrong: &mut Vec<String>) -> String {
    let mut text = format!("svc {}\n", row.command);
    let mut cases = row.cases.iter().collect::<Vec<_>>();
    let place = |situation: &Situation| Situation::ALL.iter().position(|s| s == situation);
    cases.sort_by_key(|(situation, _)| place(situation).unwrap_or(Situation::ALL.len()));
    let mut kept = None;
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
            let mut scene = scene_of(world, row, *situation, kept.take());
            let outcome = scene.piped(row.command, run);
            let _ = writeln!(text, "$ svc {}", scene.shown(&run.line));
            let _ = writeln!(text, "--- piped, exit code {}", outcome.code);
            text.push_str(&shortened(&outcome.stdout, run.head));
            if !outcome.stderr.is_empty() {
                text.push_str("--- standard error\n");
                text.push_str(&outcome.stderr);
            }
            wrong.extend(problems(row, *situation, run, &outcome, Stream::Pipe));
            kept = Some((prepared(*situation), scene));
        }
        if run.only != Some(Stream::Pipe) {
            let mut scene = scene_of(world, row, *situation, kept.take());
            let outcome = scene.on_terminal(row.command, run);
            if run.only == Some(Stream::Terminal) {
                let _ = writeln!(text, "$ svc {}", scene.shown(&run.line));
            }
            let _ = writeln!(text, "--- on a terminal, exit code {}", outcome.code);
            text.push_str(&shortened(&outcome.stdout, run.head));
            wrong.extend(problems(row, *situation, run, &outcome, Stream::Terminal));
            kept = Some((prepared(*situation), scene));
        }
    }

    text
}

/// Whether the row's preparing commands run before this situation.
fn prepared(situation: Situation) -> bool {
    matches!(situation, Situation::Success | Situation::Also(_))
}

/// The commands that only read.
static READS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let reads = |spec: &CommandSpec| spec.effect == Effect::Reads;
    let reads = svc_cli::commands().into_iter().filter(reads);
    reads.map(|spec| spec.path).collect()
});

/// A scene for a run, prepared for the situations in which the command succeeds. The scene of the
/// previous run is used again if the command only reads, or fails before it changes something.
fn scene_of<'w>(
    world: &'w World,
    row: &Row,
    situation: Situation,
    previous: Option<(bool, Scene<'w>)>,
) -> Scene<'w> {
    let reads = READS.iter().any(|path| path == row.command);
    // A job is recorded before it is sent.
    let changes = !reads && (prepared(situation) || row.command == "bulk send");
    match previous {
        Some((was_prepared, mut scene)) if !changes && was_prepared == prepared(situation) => {
            scene.forget_masked_values();
            return scene;
        }
        _ => {}
    }

    let mut scene = world.scene();
    if prepared(situation) {
        for line in &row.given {
            scene.prepare(line);
        }
    }

    scene
}

/// Checks that apply to every run, independently of its snapshot.
fn problems(
    row: &Row,
    situation: Situation,
    run: &Run,
    outcome: &Outcome,
    stream: Stream,
) -> Vec<String> {
    let mut found = Vec::new();
    let asked = run.cues.iter().any(|(_, act)| matches!(act, Act::Type(_)));
    // Without a terminal, a command that asks for confirmation refuses to run.
    let code = if asked && stream == Stream::Pipe {
        2
    } else {
        run.code
    };
    if outcome.code != code {
        found.push(format!(
            "the exit code is {} instead of {code}",
            outcome.code
        ));
    }

    for secret in SECRETS {
        if outcome.stderr.contains(secret) {
            found.push("a secret is in standard error".to_owned());
        }
    }

    if stream == Stream::Pipe && outcome.code != 0 && !run.line.contains("-o table") {
        let last = outcome.stderr.lines().last().unwrap_or_default();
        let object = serde_json::from_str::<Value>(last).unwrap_or_default();
        if !object["error"]["kind"].is_string() {
            found.push("standard error does not end with an error object".to_owned());
        }
    }

    let name = situation.name();
    let output = format!("{}{}", outcome.stdout, outcome.stderr);
    found
        .iter()
        .map(|what| format!("`{}`, {name}: {what}:\n{output}", row.command))
        .collect()
}

/// Texts that must not appear on standard error.
const SECRETS: [&str; 3] = ["mk_test_", "sk_test_", "3f1c"];

fn shortened(text: &str, head: Option<usize>) -> String {
    let Some(head) = head else {
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "[no newline]\n"
        };
        return format!("{text}{end}");
    };

    let mut lines = text.lines();
    let mut shown = lines
        .by_ref()
        .take(head)
        .fold(String::new(), |all, line| all + line + "\n");
    if lines.next().is_some() {
        shown.push_str("[…]\n");
    }
    shown
}
