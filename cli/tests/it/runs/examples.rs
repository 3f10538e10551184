//! Runs the examples of the help texts and the READMEs in a shell, with a server, an application and
//! the files that they use. Only ids, URLs and ports are replaced.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::in_parallel;
use super::scene::{Scene, World};
use crate::examples;
use crate::support::Run;

/// Lines that are not run, by a part of the line, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("sha256=6b1f…", "the signature is a placeholder"),
    ("postgres://svc@10.0.0.5", "it needs a PostgreSQL server"),
    ("bulk pause", "it needs a job that is being sent"),
    ("bulk cancel", "it needs a job that is not complete"),
    ("bulk settle", "it needs a job with unknown rows"),
];

/// Lines with another exit code than 0, and why.
const CODES: &[(&str, i32, &str)] = &[
    (
        "svc sandbox messages release msg_019a --to me@example.com",
        6,
        "there is no relay",
    ),
    (
        "svc audiences delete aud_019a",
        2,
        "asks for confirmation, and standard input is empty",
    ),
    ("svc bulk forget", 2, "asks for confirmation"),
    ("svc contacts delete con_019a", 2, "asks for confirmation"),
    (
        "svc emails cancel eml_019a eml_019b --jq '.[] | [.id, .result]'",
        11,
        "one of them does not exist",
    ),
    (
        "svc bulk remove 20261122-101500-1f3a9c02",
        2,
        "asks for confirmation",
    ),
    ("svc domains delete dom_019a", 2, "asks for confirmation"),
    ("svc webhooks delete whk_019a", 2, "asks for confirmation"),
    (
        "svc extraction webhooks delete whk_019a",
        2,
        "asks for confirmation",
    ),
    (
        "svc api GET /v1/extractions --service extraction",
        5,
        "the server has no such path",
    ),
    (
        "svc certify http://localhost:3000/hooks --service email --secret-file secret.txt",
        10,
        "the application accepts every delivery",
    ),
    (
        "svc certify https://test.example/hooks --service extraction --secret-file secret.txt --yes --json",
        10,
        "the application accepts every delivery",
    ),
];

/// Replacements in the lines.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("cargo run --release --", "svc"),
    ("hello@example.com", "hello@sandbox.test"),
    ("https://mail.example.com", "$server"),
    ("https://mail.staging.example.com", "$server"),
    (
        "https://extract.example.com < key.txt",
        "$server < extraction-key.txt",
    ),
    // Without the check that takes 15 seconds.
    (
        "certify http://localhost:3000/hooks",
        "certify $application/hooks --only wrong-secret",
    ),
    (
        "certify https://test.example/hooks",
        "certify $application/hooks --only wrong-secret",
    ),
    ("http://localhost:3000", "$application"),
    ("--port 4242", "--port 0"),
    ("127.0.0.1:4090", "127.0.0.1:0"),
    ("sandbox serve", "sandbox serve --addr 127.0.0.1:0"),
    (
        "--addr 127.0.0.1:0 --addr 127.0.0.1:0",
        "--addr 127.0.0.1:0",
    ),
    ("0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e", "$delivery"),
    (
        "bulk send people.csv",
        "bulk send subscribers.csv --yes --again",
    ),
    (
        "bulk send people.ndjson",
        "bulk send subscribers.csv --yes --again",
    ),
    ("bulk send --audience", "bulk send --again --yes --audience"),
    ("20261122-101500-1f3a9c02", "$job"),
    ("20261122", "$job"),
    (
        "people.csv --existing update --column",
        "mapped.csv --existing update --column",
    ),
    ("import aud_019a people.csv", "import aud_019a good.csv"),
    ("< people.csv", "< good.csv"),
    (
        "extraction webhooks delete whk_019a",
        "extraction webhooks delete $extraction_hook",
    ),
    (
        "extraction webhooks get whk_019a",
        "extraction webhooks get $extraction_hook",
    ),
    ("domains verify example.com", "domains verify sandbox.test"),
    ("domains get example.com", "domains get sandbox.test"),
    ("domains delete example.com", "domains delete sandbox.test"),
    ("example.test spf", "sandbox.test spf"),
    ("dns publish example.test", "dns publish sandbox.test"),
    ("emails cancel eml_019a", "emails cancel $scheduled"),
];

/// Ids, and the commands that create them, in order.
const IDS: &[(&str, &str)] = &[
    ("aud_019a", "id=audiences create Newsletter --jq .id"),
    ("con_019a", "audience=audiences create Newsletter --jq .id"),
    (
        "con_019a",
        "id=contacts create $audience bob@example.test --jq .id",
    ),
    ("dom_019a", "id=domains list --jq .[0].id"),
    (
        "$extraction_hook",
        "extraction_hook=extraction webhooks create $application --event extraction.completed --jq .id",
    ),
    (
        "whk_019a",
        "id=--sandbox webhooks create $application --event email.delivered --jq .id",
    ),
    (
        "eml_019a",
        "id=emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait --jq .id",
    ),
    (
        "$scheduled",
        "scheduled=emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --at +2h --jq .id",
    ),
    (
        "msg_019a",
        "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait",
    ),
    ("msg_019a", "id=sandbox messages list --jq .[0].id"),
    ("req_019a", "--sandbox audiences list"),
    ("req_019a", "id=sandbox requests list --jq .[0].id"),
    (
        "messages wait",
        "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait",
    ),
    (
        "$delivery",
        "--sandbox webhooks create $application --event email.delivered",
    ),
    (
        "$delivery",
        "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait",
    ),
    ("$delivery", "delivery=sandbox deliveries list --jq .[0].id"),
    (
        "key_019a",
        "id=sandbox keys create --service email --scope emails:read --jq .id",
    ),
    (
        "flt_019a",
        "id=sandbox faults add --operation audiences.list --status 503 --jq .id",
    ),
    (
        "templates render welcome",
        "sandbox templates put welcome --html '<p>{{ name }}</p>' --subject Hi",
    ),
    (
        "templates get welcome",
        "sandbox templates put welcome --subject Hi --text Hello",
    ),
    (
        "templates delete welcome",
        "sandbox templates put welcome --subject Hi --text Hello",
    ),
    ("example.test spf", "domains create example.test"),
    ("dns publish example.test", "domains create example.test"),
    ("Newsletter", "audiences create Newsletter"),
    (
        "--yes --audience Newsletter",
        "contacts create Newsletter ada@example.org",
    ),
    (
        "--template welcome",
        "sandbox templates put welcome --subject Hi --text Hello",
    ),
    (
        "$job",
        "job=bulk send list.csv --from hello@sandbox.test --subject Hi --text Hello --yes --again --jq .job",
    ),
    ("'Spring offers'", "audiences create 'Spring offers'"),
    (
        "contacts get ada@example.org",
        "audiences create Newsletter",
    ),
    (
        "contacts get ada@example.org",
        "contacts create Newsletter ada@example.org",
    ),
    (
        "contacts update ada@example.org",
        "audiences create Newsletter",
    ),
    (
        "contacts update ada@example.org",
        "contacts create Newsletter ada@example.org",
    ),
    (
        "contacts delete ada@example.org",
        "audiences create Newsletter",
    ),
    (
        "contacts delete ada@example.org",
        "contacts create Newsletter ada@example.org",
    ),
    (
        "extraction webhooks delete https://example.com/hooks",
        "extraction webhooks create https://example.com/hooks --event extraction.failed",
    ),
    (
        "extraction webhooks get https://example.com/hooks",
        "extraction webhooks create https://example.com/hooks --event extraction.failed",
    ),
    (
        "webhooks get https://example.com/hooks",
        "webhooks create https://example.com/hooks --event email.sent",
    ),
    (
        "webhooks delete https://example.com/hooks",
        "webhooks create https://example.com/hooks --event email.sent",
    ),
    (
        "staging",
        "login --profile staging --email-url $server < key.txt",
    ),
];

/// Files that examples use, besides those of every scene.
const FILES: &[(&str, &str)] = &[
    ("q3.pdf", "%PDF-1.7"),
    ("mapped.csv", "E-Mail Address,name\nada@example.test,Ada\n"),
    (
        "emails.ndjson",
        "{\"from\":\"hello@sandbox.test\",\"to\":\"ada@example.test\",\"subject\":\"Hi\",\"text\":\"Hello\"}\n",
    ),
    ("people.json", "[]"),
    (
        "subscribers.csv",
        "email,first_name,token\nada@example.test,Ada,k7\n",
    ),
    ("news.html", "<p>Hello</p>"),
    ("news.txt", "Hello"),
    ("sandbox.toml", "[[organizations]]\nname = \"Shop\"\n"),
    ("dialect.toml", "id-place = \"header\"\n"),
    ("variables.json", r#"{"name":"Ada"}"#),
    (
        "data/svc/deliveries/rec_019a0b1c.json",
        r#"{"id":"rec_019a0b1c","received_at":"2020-01-04T09:00:00.000Z","service":"email","event":"email.sent","event_id":"evt_9","headers":[["content-type","application/json"]],"body":"e30=","forwarded_to":"$application","secret_file":"secret.txt"}"#,
    ),
];

/// Stand-ins for other programs that examples use.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "true"),
    ("jq", "cat"),
    ("man", "cat"),
    ("pytest", "true"),
    ("npm", "true"),
    ("../to-emails", "cat emails.ndjson"),
];

#[test]
fn every_help_example_runs() {
    let lines = examples::help_examples();
    assert!(
        lines.len() > 100,
        "only {} examples were found",
        lines.len()
    );

    let results = in_parallel(&lines, |world, line| run_example(world, line));
    let wrong = results
        .into_iter()
        .filter_map(Result::err)
        .collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_readme_command_runs() {
    let lines = readme_commands();
    assert!(lines.len() >= 5, "only {} commands were found", lines.len());
    let results = in_parallel(&lines, |world, line| run_example(world, line));
    let wrong = results
        .into_iter()
        .filter_map(Result::err)
        .collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn exceptions_match_existing_examples() {
    let lines = [examples::help_examples(), readme_commands()].concat();
    let named = NOT_RUN
        .iter()
        .map(|(part, _)| part)
        .chain(CODES.iter().map(|(part, ..)| part));
    for part in named {
        assert!(
            lines.iter().any(|line| line.contains(part)),
            "no example holds `{part}`"
        );
    }
}

/// Runs a line in a new scene.
fn run_example(world: &World, line: &str) -> Result<(), String> {
    if NOT_RUN.iter().any(|(part, _)| line.contains(part)) {
        return Ok(());
    }

    let mut scene = world.scene();
    scene.resume_clock();
    let mut text = line.to_owned();
    for (from, to) in REPLACEMENTS {
        text = text.replace(from, to);
    }

    for (_, given) in IDS.iter().filter(|(part, _)| text.contains(part)) {
        scene.prepare(given);
    }

    for id in [
        "aud", "con", "dom", "whk", "eml", "msg", "req", "key", "flt",
    ] {
        text = text.replace(&format!("{id}_019a"), "$id");
    }

    let text = scene.named(&text);
    for (name, content) in FILES {
        scene.home().file(name, scene.named(content));
    }

    let code = CODES
        .iter()
        .find(|(exactly, ..)| line == *exactly)
        .map_or(0, |(_, code, _)| *code);
    let run = match alone(&text) {
        Some(words) => without_a_shell(&scene, &words),
        None => in_a_shell(&scene, &text),
    };
    if run.code == code {
        return Ok(());
    }

    Err(format!(
        "{line}\n{text}\n{} instead of {code}: {}{}",
        run.code, run.stdout, run.stderr
    ))
}

/// The words of a line that needs no shell, no process and none of the programs.
fn alone(text: &str) -> Option<Vec<String>> {
    let needs = [
        "mcp", "listen", "serve", "stop", "watch", "exec", "open", "login",
    ];
    let needs_process = needs.iter().any(|word| text.contains(word))
        || PROGRAMS.iter().any(|(name, _)| text.contains(name));
    if needs_process || text.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '~']) {
        return None;
    }

    let words = shlex::split(text)?;
    (words.first()? == "svc").then_some(words)
}

fn without_a_shell(scene: &Scene<'_>, words: &[String]) -> Run {
    let words = words[1..].iter().map(String::as_str).collect::<Vec<_>>();
    let mut command = scene.home().command(&words);
    scene.configure(&mut command);
    command.env("EDITOR", "true");
    Run::complete(command)
}

fn in_a_shell(scene: &Scene<'_>, text: &str) -> Run {
    let bin = scene.home().path("bin");
    fs::create_dir_all(&bin).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svc"), bin.join("svc")).expect("linked");
    for (name, does) in PROGRAMS {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("changed");
    }

    let commands = ["mcp --listen", " listen", "sandbox serve", "svc watch"];
    let runs_on = commands.iter().any(|command| text.contains(command));
    // These examples start or stop a server of their own.
    let own = text.contains("sandbox serve") || text.contains("sandbox stop");
    // With a path, it is started without copying the memory map of this process.
    let mut command = Command::new("/bin/bash");
    let text = text.trim_end_matches(" &");
    command.args(["-euo", "pipefail", "-c"]).arg(if runs_on {
        format!("exec {text}")
    } else {
        text.to_owned()
    });
    scene.configure(&mut command);
    command
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("EDITOR", "true")
        .stdin(if text.starts_with("svc login") {
            scene.key().into()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if text.contains("$MAIL_SIGNATURE") {
        command.env("MAIL_SIGNATURE", scene.signature());
    }
    if own {
        command.env("SVC_SANDBOX_DIR", scene.home().path("own"));
    }
    let mut child = command.spawn().expect("bash starts");
    if runs_on {
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut first)
            .expect("a line");
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .expect("runs")
                .success()
        );
    }

    Run::of(child.wait_with_output().expect("bash ends"))
}

/// The `svc` commands in the shell blocks of the READMEs and of the skill for assistants.
fn readme_commands() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dirs = [
        "",
        "cli",
        "sdk",
        "webhook-verify",
        "reference-server",
        "examples",
        "tests",
    ];
    let readmes = dirs.iter().map(|dir| root.join(dir).join("README.md"));
    let skill = root.join("cli/src/commands/agent/SKILL.md");
    let texts = readmes
        .chain([skill])
        .filter(|path| path.exists())
        .map(|path: PathBuf| fs::read_to_string(path));
    let mut found = Vec::new();
    for text in texts.map(|text| text.expect("UTF-8")) {
        for block in text.split("```sh\n").skip(1) {
            let block = block
                .split("```")
                .next()
                .unwrap_or_default()
                .replace("\\\n", "");
            let lines = block
                .lines()
                .map(|line| line.split(" # ").next().unwrap_or_default().trim());
            let ours = |line: &&str| {
                line.starts_with("svc ") || line.starts_with("cargo run --release -- ")
            };
            found.extend(lines.filter(ours).map(str::to_owned));
        }
    }

    found
}
