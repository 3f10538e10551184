//! `svc agent setup`: the settings of other programs are changed, and restored.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::pty::Terminal;
use crate::support::{Home, Run};

/// Each client: its settings, the member with the servers, and whether an entry names the transport.
const CLIENTS: [(&str, &str, &str, bool); 7] = [
    ("claude-code", ".claude.json", "mcpServers", true),
    (
        "claude-desktop",
        "config/Claude/claude_desktop_config.json",
        "mcpServers",
        false,
    ),
    ("codex", ".codex/config.toml", "mcp_servers", false),
    ("cursor", ".cursor/mcp.json", "mcpServers", true),
    ("vscode", "config/Code/User/mcp.json", "servers", true),
    ("zed", "config/zed/settings.json", "context_servers", false),
    ("gemini", ".gemini/settings.json", "mcpServers", false),
];

/// In place of the path of `svc`: the tests run in this program.
fn this() -> String {
    std::env::current_exe()
        .expect("a path")
        .display()
        .to_string()
}

#[track_caller]
fn setup(home: &Home, args: &[&str]) -> Run {
    let run = home.run(&[&["agent", "setup"], args, &["--yes"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    run
}

fn read(home: &Home, file: &str) -> Option<String> {
    fs::read_to_string(home.path(file)).ok()
}

/// The server of a file that has no comments.
fn server(text: &str, file: &str, key: &str) -> Value {
    if !file.ends_with(".toml") {
        return serde_json::from_str::<Value>(text).expect("JSON")[key]["svc"].clone();
    }
    let document = text.parse::<toml_edit::DocumentMut>().expect("TOML");
    let server = &document[key]["svc"];
    let args = server["args"].as_array().expect("a list").iter();
    let args = args
        .map(|arg| arg.as_str().expect("a text"))
        .collect::<Vec<_>>();
    json!({"command": server["command"].as_str(), "args": args})
}

#[test]
fn a_new_file_of_every_client_is_removed_again() {
    for (client, file, key, has_type) in CLIENTS {
        let home = Home::new();
        let created = setup(&home, &[client]).json();
        assert_eq!(created["files"][0], home.path(file).display().to_string());
        let text = read(&home, file).expect("a file");
        let mut expected = json!({"command": this(), "args": ["mcp"]});
        if has_type {
            expected["type"] = "stdio".into();
        }
        assert_eq!(server(&text, file, key), expected, "{client}");
        assert_eq!(
            setup(&home, &[client]).json()["files"],
            json!([]),
            "{client}"
        );
        let removed = setup(&home, &[client, "--remove"]).json();
        assert_eq!(
            removed["files"].as_array().map(Vec::len),
            created["files"].as_array().map(Vec::len)
        );
        // Nor is a folder left.
        let left = fs::read_dir(home.path("")).expect("a folder").count();
        assert_eq!(left, 0, "{client}");
        assert_eq!(
            setup(&home, &[client, "--remove"]).json()["files"],
            json!([])
        );
    }
}

#[test]
fn comments_servers_and_modes_of_others_stay() {
    for (client, file, key, _) in CLIENTS {
        let home = Home::new();
        let before = match file.ends_with(".toml") {
            true => format!(
                "# mine\nmodel = \"x\" # why\n\n[{key}.other]\ncommand = \"other\" # theirs\n"
            ),
            false => format!(
                "{{\n\t// mine\n\t\"{key}\": {{\n\t\t\"other\": {{\"command\": \"other\"}} // theirs\n\t}},\n\t\"model\": \"x\",\n}}\n"
            ),
        };
        home.file(file, &before);
        let mode = |mode: Option<u32>| {
            let path = home.path(file);
            if let Some(mode) = mode {
                fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("changed");
            }
            fs::metadata(path).expect("a file").permissions().mode() & 0o777
        };
        mode(Some(0o640));
        setup(&home, &[client]);
        let after = read(&home, file).expect("a file");
        let parts = ["mine", "theirs", "other", "model", &this()];
        assert!(parts.iter().all(|part| after.contains(part)), "{after}");
        assert_eq!(mode(None), 0o640);
        setup(&home, &[client, "--remove"]);
        assert_eq!(read(&home, file).as_deref(), Some(&*before), "{client}");
        assert_eq!(mode(None), 0o640);
    }
}

#[test]
fn a_new_file_can_be_read_by_those_who_can_read_others() {
    let home = Home::new();
    setup(&home, &["claude-code"]);
    let mode = |file: &str| {
        fs::metadata(home.path(file))
            .expect("a file")
            .permissions()
            .mode()
    };
    home.file("usual", "");
    assert_eq!(mode(".claude.json"), mode("usual"));
}

#[test]
fn a_file_that_cannot_be_parsed_is_left_alone() {
    for (client, file, ..) in CLIENTS {
        let home = Home::new();
        let before = "{\n  \"key\": sk_live_secret,\n";
        home.file(file, before);
        for more in [&[][..], &["--remove"]] {
            let run = home.run(&[&["agent", "setup", client, "--yes"], more].concat());
            assert_eq!(run.code, 2, "{run:?}");
            let error = run.error();
            let message = error["message"].as_str().expect("a message");
            assert!(
                message.contains(file) && message.contains("line "),
                "{message}"
            );
            assert!(
                !message.contains("sk_live") && error["hint"].is_string(),
                "{error}"
            );
            assert_eq!(read(&home, file).as_deref(), Some(before));
            assert!(!home.path(".agents").exists() && !home.path(".claude").exists());
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_reported() {
    let home = Home::new();
    home.file(".gemini", "not a folder");
    let run = home.run(&["agent", "setup", "gemini", "--yes"]);
    assert!(run.code != 0 && run.stderr.contains(".gemini"), "{run:?}");
    // The superuser can write into such a folder.
    home.file(".cursor/mcp.json", "{}");
    let folder = home.path(".cursor");
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o500)).expect("changed");
    let run = home.run(&["agent", "setup", "cursor", "--yes"]);
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).expect("changed");
    let before = read(&home, ".cursor/mcp.json").is_some_and(|text| text == "{}");
    assert_eq!(before, run.code == 1, "{run:?}");
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), 1);
}

#[test]
fn nothing_is_written_without_a_confirmation() {
    let home = Home::new();
    let run = home.run(&["agent", "setup", "claude-code"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["message"]
            .as_str()
            .is_some_and(|it| it.contains(".claude.json"))
    );
    home.run(&["agent", "setup", "claude-code", "--print"]);
    assert_eq!(fs::read_dir(home.path("")).expect("a folder").count(), 0);
}

#[test]
fn a_change_of_another_program_during_the_question_is_not_lost() {
    let home = Home::new();
    home.file(".claude.json", "{}");
    let mut terminal = Terminal::start(&home, &["agent", "setup", "claude-code"], &[], 200);
    terminal.until("[y/N] ");
    home.file(".claude.json", "{\"startups\": 1}");
    terminal.write("y\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 1, "{}", seen.text);
    assert!(
        seen.text.contains("+   \"mcpServers\": {") && seen.text.contains("run the command again")
    );
    assert_eq!(
        read(&home, ".claude.json").as_deref(),
        Some("{\"startups\": 1}")
    );
    assert!(!home.path(".claude").exists());
}

#[test]
fn an_entry_keeps_what_a_person_added_and_is_shown_before_it_is_removed() {
    let home = Home::new();
    setup(&home, &["gemini"]);
    let text = read(&home, ".gemini/settings.json").expect("a file");
    let text = text
        .replace(&this(), "/old/svc")
        .replace("\"command\"", "\"trust\": false, \"command\"");
    home.file(".gemini/settings.json", text);
    setup(&home, &["gemini"]);
    let text = read(&home, ".gemini/settings.json").expect("a file");
    let expected = json!({"trust": false, "command": this(), "args": ["mcp"]});
    assert_eq!(server(&text, "", "mcpServers"), expected);
    let run = setup(&home, &["gemini", "--remove", "-o", "table"]);
    assert!(run.stderr.contains("-       \"trust\": false"), "{run:?}");
    assert_eq!(read(&home, ".gemini/settings.json"), None);
}

#[test]
fn what_is_not_from_svc_is_neither_changed_nor_removed() {
    let cases = [
        (
            "claude-code",
            ".claude.json",
            r#"{"mcpServers": {"svc": {"command": "svc", "args": ["x"]}}}"#,
        ),
        (
            "claude-code",
            ".claude.json",
            r#"{"mcpServers": {"svc": {"url": "http://127.0.0.1:9"}}}"#,
        ),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.svc]\ncommand = \"npx\"\nargs = [\"mcp\"]\n",
        ),
    ];
    for (client, file, before) in cases {
        let home = Home::new();
        home.file(file, before);
        for more in [&[][..], &["--remove"]] {
            let run = home.run(&[&["agent", "setup", client, "--yes"], more].concat());
            assert_eq!(run.code, 2, "{run:?}");
            let error = run.error();
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|it| it.contains("another name"))
            );
            assert_eq!(read(&home, file).as_deref(), Some(before));
        }
    }
    let home = Home::new();
    let skill = "---\nname: svc\ndescription: Services of mine\n---\n";
    home.file(".agents/skills/svc/SKILL.md", skill);
    let run = home.run(&["agent", "setup", "codex", "--yes"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["hint"]
            .as_str()
            .is_some_and(|it| it.contains("another name"))
    );
    assert!(!home.path(".codex").exists());
    setup(&home, &["codex", "--remove"]);
    assert_eq!(
        read(&home, ".agents/skills/svc/SKILL.md").as_deref(),
        Some(skill)
    );
}

#[test]
fn a_byte_order_mark_stays_and_a_file_without_content_is_removed() {
    for (client, file, ..) in CLIENTS {
        let text = if file.ends_with(".toml") {
            "\u{feff}a = 1\n"
        } else {
            "\u{feff}{\n  \"a\": 1\n}\n"
        };
        for before in ["", "\u{feff}", text] {
            let home = Home::new();
            home.file(file, "\n");
            assert_eq!(
                setup(&home, &[client, "--remove"]).json()["files"],
                json!([])
            );
            home.file(file, before);
            let run = setup(&home, &[client]);
            assert!(
                run.stderr.contains("svc") && run.stderr.contains("note: + "),
                "{run:?}"
            );
            let after = read(&home, file).expect("a file");
            assert!(after.contains("mcp") && after.starts_with('\u{feff}') != before.is_empty());
            setup(&home, &[client, "--remove"]);
            let rest = Some(before).filter(|before| *before == text);
            assert_eq!(read(&home, file).as_deref(), rest, "{client}");
        }
    }
}

#[test]
fn the_entry_names_the_profile_and_no_secret() {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        "[profiles.'a b']\nemail_url = \"http://127.0.0.1:9\"\n",
    );
    let env = [("SVC_EMAIL_KEY", "mk_test_secret"), ("SVC_PROFILE", "a b")];
    let args = ["agent", "setup", "vscode", "--yes", "-o", "table"];
    let args_of = |run: &Run| {
        assert_eq!(run.code, 0, "{run:?}");
        let text = read(&home, "config/Code/User/mcp.json").expect("a file");
        assert!(!format!("{text}{run:?}").contains("secret"));
        server(&text, "", "servers")["args"].clone()
    };
    // The client has another environment.
    assert_eq!(args_of(&home.run_with_env(&args, &env)), json!(["mcp"]));
    let named = home.run_with_env(&[&args[..], &["--profile", "a b"]].concat(), &env);
    assert_eq!(args_of(&named), json!(["mcp", "--profile", "a b"]));
    assert!(named.stdout.contains("mcp --profile 'a b'"), "{named:?}");
    let unknown = home.run(&[&args[..], &["--profile", "c"]].concat());
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn the_skill_stays_while_another_client_reads_it() {
    let home = Home::new();
    setup(&home, &["codex"]);
    setup(&home, &["zed"]);
    let skill = read(&home, ".agents/skills/svc/SKILL.md").expect("a skill");
    assert!(skill.starts_with("---\nname: svc\ndescription: ") && skill.lines().count() <= 120);
    let description = skill
        .lines()
        .nth(2)
        .expect("a line")
        .trim_start_matches("description: ");
    assert!(
        description.len() <= 1024 && !description.contains(": "),
        "{description}"
    );
    setup(&home, &["codex", "--remove"]);
    assert!(home.path(".agents/skills/svc/SKILL.md").exists());
    setup(&home, &["zed", "--remove"]);
    assert!(!home.path(".agents/skills/svc").exists());
    let printed = home.run(&["agent", "setup", "--print", "--jq", ".skill"]);
    assert_eq!(printed.stdout.trim_end(), skill.trim_end());
}

#[test]
fn variables_of_the_clients_name_their_directories() {
    let home = Home::new();
    let cases = [
        (
            "claude-code",
            "CLAUDE_CONFIG_DIR",
            &[".claude.json", "skills/svc/SKILL.md"][..],
        ),
        ("codex", "CODEX_HOME", &["config.toml"]),
        (
            "gemini",
            "GEMINI_CLI_HOME",
            &[".gemini/settings.json", ".gemini/skills/svc/SKILL.md"],
        ),
    ];
    for (client, variable, files) in cases {
        let folder = home.path(client).display().to_string();
        let run = home.run_with_env(&["agent", "setup", client, "--yes"], &[(variable, &folder)]);
        assert_eq!(run.code, 0, "{run:?}");
        for file in files {
            assert!(home.path(client).join(file).exists(), "{client}: {file}");
        }
    }
}

#[test]
fn a_link_stays_a_link() {
    let home = Home::new();
    home.file("dotfiles/zed.json", "// mine\n{}\n");
    fs::create_dir_all(home.path("config/zed")).expect("made");
    let link = home.path("config/zed/settings.json");
    std::os::unix::fs::symlink(home.path("dotfiles/zed.json"), &link).expect("linked");
    setup(&home, &["zed"]);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(read(&home, "dotfiles/zed.json").is_some_and(|text| text.contains("context_servers")));
}

/// A package manager keeps each version in a folder of its own, and a link on the search path.
#[test]
fn the_entry_names_the_link_on_the_search_path() {
    let home = Home::new();
    let svc = home.path("bin/svc");
    fs::create_dir_all(home.path("bin")).expect("made");
    std::os::unix::fs::symlink(this(), &svc).expect("linked");
    let path = format!("relative:/usr/bin:{}", home.path("bin").display());
    let run = home.run_with_env(&["agent", "setup", "cursor", "--print"], &[("PATH", &path)]);
    assert_eq!(
        server(&run.stdout, "", "mcpServers")["command"],
        svc.display().to_string()
    );
}
