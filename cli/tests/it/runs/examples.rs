//! What the help and the READMEs tell people to type is really typed, into a
//! shell: with a server, an application and the files that the lines name.
//! Only names are put in the place of other names (ids, addresses, ports).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::scene::{Scene, World};
use crate::examples;
use crate::support::Run;

/// Lines that are not run, and why. A part of the line says which.
const NOT_RUN: &[(&str, &str)] = &[("sha256=6b1f…", "the signature stands for the reader's own")];

/// Lines that do not succeed here, and why that is right.
const CODES: &[(&str, i32, &str)] = &[
    ("svc audiences delete aud_019a", 2, "it asks, and here nobody answers"),
    ("svc contacts delete con_019a", 2, "it asks"),
    ("svc domains delete dom_019a", 2, "it asks"),
    ("svc webhooks delete whk_019a", 2, "it asks"),
    ("svc extraction webhooks delete whk_019a", 2, "it asks"),
    ("svc api GET /v1/extractions --service extraction", 5, "the server has no such path"),
];

/// What stands for something else.
const NAMES: &[(&str, &str)] = &[
    ("cargo run --release --", "svc"),
    ("hello@example.com", "hello@sandbox.test"),
    ("https://mail.example.com", "$server"),
    ("https://mail.staging.example.com", "$server"),
    ("https://extract.example.com < key.txt", "$server < extraction-key.txt"),
    ("http://localhost:3000", "$application"),
    ("--port 4242", "--port 0"),
    ("sandbox serve", "sandbox serve --addr 127.0.0.1:0"),
    ("--addr 127.0.0.1:0 --addr 127.0.0.1:0", "--addr 127.0.0.1:0"),
    ("dlv_019a", "$delivery"),
    ("people.csv --existing update --map", "mapped.csv --existing update --map"),
    ("import aud_019a people.csv", "import aud_019a good.csv"),
    ("< people.csv", "< good.csv"),
    ("extraction webhooks delete whk_019a", "extraction webhooks delete $extraction_hook"),
    ("emails cancel eml_019a", "emails cancel $scheduled"),
];

/// What an id stands for, and the commands that make it, in their order.
const IDS: &[(&str, &str)] = &[
    ("aud_019a", "id=audiences create Newsletter --jq .id"),
    ("con_019a", "audience=audiences create Newsletter --jq .id"),
    ("con_019a", "id=contacts create $audience bob@example.test --jq .id"),
    ("dom_019a", "id=domains create shop.test --jq .id"),
    ("dom_019a", "sandbox dns publish shop.test"),
    (
        "$extraction_hook",
        "extraction_hook=extraction webhooks create $application --event extraction.completed --jq .id",
    ),
    ("whk_019a", "id=--sandbox webhooks create $application --event email.delivered --jq .id"),
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
    (
        "messages wait",
        "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait",
    ),
    ("$delivery", "--sandbox webhooks create $application --event email.delivered"),
    (
        "$delivery",
        "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait",
    ),
    ("$delivery", "delivery=sandbox deliveries list --jq .[0].id"),
    ("key_019a", "id=sandbox keys create --service email --scope emails:read --jq .id"),
    ("flt_019a", "id=sandbox faults add --operation audiences.list --status 503 --jq .id"),
    ("templates get welcome", "sandbox templates put welcome --subject Hi --text Hello"),
    ("templates delete welcome", "sandbox templates put welcome --subject Hi --text Hello"),
    ("example.test spf", "domains create example.test"),
    ("dns publish example.test", "domains create example.test"),
    ("staging", "login --profile staging --email-url $server < key.txt"),
];

/// Files that examples name, beside those of every scene.
const FILES: &[(&str, &str)] = &[
    ("q3.pdf", "%PDF-1.7"),
    ("new.txt", "whsec_3f1c\n"),
    ("old.txt", "whsec_before\n"),
    ("mapped.csv", "E-Mail Address,name\nada@example.test,Ada\n"),
    (
        "emails.ndjson",
        "{\"from\":\"hello@sandbox.test\",\"to\":\"ada@example.test\",\"subject\":\"Hi\",\"text\":\"Hello\"}\n",
    ),
    ("people.json", "[]"),
    ("new.txt", "whsec_3f1c\n"),
    ("old.txt", "whsec_1a2b\n"),
    (
        "data/svc/deliveries/rec_019a0b1c.json",
        r#"{"id":"rec_019a0b1c","received_at":"2020-01-04T09:00:00.000Z","service":"email","event":"email.sent","event_id":"evt_9","headers":[["content-type","application/json"]],"body":"e30=","forwarded_to":"$application","secret_file":"secret.txt"}"#,
    ),
];

/// Programs of other people that examples use: they take what they are given.
const OTHERS: &[(&str, &str)] =
    &[("curl", "true"), ("jq", "cat"), ("man", "cat"), ("../to-emails", "cat emails.ndjson")];

#[test]
fn every_example_of_the_help_is_run() {
    let world = World::start();
    let lines = examples::of_the_help();
    assert!(lines.len() > 100, "only {} examples were found", lines.len());
    let wrong = lines.iter().filter_map(|line| typed(&world, line).err()).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_command_of_the_readmes_is_run() {
    let world = World::start();
    let lines = of_the_readmes();
    assert!(lines.len() >= 5, "only {} commands were found", lines.len());
    let wrong = lines.iter().filter_map(|line| typed(&world, line).err()).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn nothing_is_excused_that_is_not_there() {
    let lines = [examples::of_the_help(), of_the_readmes()].concat();
    let named = NOT_RUN.iter().map(|(part, _)| part).chain(CODES.iter().map(|(part, ..)| part));
    for part in named {
        assert!(lines.iter().any(|line| line.contains(part)), "no example holds `{part}`");
    }
}

/// Runs a line in a home and with a server of its own making.
fn typed(world: &World, line: &str) -> Result<(), String> {
    if NOT_RUN.iter().any(|(part, _)| line.contains(part)) {
        return Ok(());
    }
    let mut scene = world.scene();
    scene.prepare("sandbox clock resume");
    let mut text = line.to_owned();
    for (said, meant) in NAMES {
        text = text.replace(said, meant);
    }
    for (_, given) in IDS.iter().filter(|(part, _)| text.contains(part)) {
        scene.prepare(given);
    }
    for id in ["aud", "con", "dom", "whk", "eml", "msg", "key", "flt"] {
        text = text.replace(&format!("{id}_019a"), "$id");
    }
    let text = scene.named(&text);
    for (name, content) in FILES {
        scene.home().file(name, scene.named(content));
    }
    let code = CODES.iter().find(|(exactly, ..)| line == *exactly).map_or(0, |(_, code, _)| *code);
    let run = in_a_shell(&scene, &text);
    if run.code == code {
        return Ok(());
    }
    Err(format!("{line}\n{text}\n{} instead of {code}: {}{}", run.code, run.stdout, run.stderr))
}

fn in_a_shell(scene: &Scene<'_>, text: &str) -> Run {
    let bin = scene.home().path("bin");
    fs::create_dir_all(&bin).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svc"), bin.join("svc")).expect("linked");
    for (name, does) in OTHERS {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("changed");
    }
    let runs_on = text.contains(" listen") || text.contains("sandbox serve");
    // These are about a server of their own.
    let own = runs_on && !text.contains("listen") || text.contains("sandbox stop");
    let mut command = Command::new("bash");
    let text = text.trim_end_matches(" &");
    command.args(["-euo", "pipefail", "-c"]).arg(if runs_on {
        format!("exec {text}")
    } else {
        text.to_owned()
    });
    scene.surround(&mut command);
    command
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("EDITOR", "true")
        .env("MAIL_SIGNATURE", scene.signature())
        .stdin(if text.starts_with("svc login") { scene.key().into() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if own {
        command.env("SVC_SANDBOX_DIR", scene.home().path("own"));
    }
    let mut child = command.spawn().expect("bash starts");
    if runs_on {
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("runs").success());
    }
    Run::of(child.wait_with_output().expect("bash ends"))
}

/// The lines of the shell's blocks that are about us.
fn of_the_readmes() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rooms = ["", "cli", "sdk", "webhook-verify", "reference-server", "examples", "tests"];
    let readmes = rooms.iter().map(|room| root.join(room).join("README.md"));
    let texts = readmes.filter(|path| path.exists()).map(|path: PathBuf| fs::read_to_string(path));
    let mut found = Vec::new();
    for text in texts.map(|text| text.expect("UTF-8")) {
        for block in text.split("```sh\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default().replace("\\\n", "");
            let lines =
                block.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim());
            let ours = |line: &&str| {
                line.starts_with("svc ") || line.starts_with("cargo run --release -- ")
            };
            found.extend(lines.filter(ours).map(str::to_owned));
        }
    }
    found
}
