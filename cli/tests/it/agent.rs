//! `svc agent setup` shows what to add to the settings of other programs, and changes nothing.

use std::fs;

use serde_json::{Value, json};

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
fn setup(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Run {
    let run = home.run_with_env(&[&["agent", "setup"], args].concat(), env);
    assert_eq!(run.code, 0, "{run:?}");
    run
}

/// The server of an entry.
fn server(text: &str, key: &str) -> Value {
    if let Ok(json) = serde_json::from_str::<Value>(text) {
        return json[key]["svc"].clone();
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
fn the_entry_of_every_client_and_its_file_are_printed_and_nothing_is_written() {
    for (client, file, key, has_type) in CLIENTS {
        let home = Home::new();
        let printed = setup(&home, &[client], &[]);
        let mut expected = json!({"command": this(), "args": ["mcp"]});
        if has_type {
            expected["type"] = "stdio".into();
        }
        assert_eq!(server(&printed.stdout, key), expected, "{client}");
        let path = home.path(file).display().to_string();
        assert!(printed.stderr.contains(&path), "{printed:?}");
        let json = setup(&home, &[client, "--json"], &[]).json();
        assert_eq!(json["settings"], path);
        assert_eq!(json["entry"], printed.stdout);
        assert!(json["skill"].as_str().is_some_and(|it| it.len() > 1000));
        assert_eq!(fs::read_dir(home.path("")).expect("a folder").count(), 0);
    }
}

#[test]
fn the_own_command_of_a_client_is_named() {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        "[profiles.'a b']\nemail_url = \"http://127.0.0.1:9\"\n",
    );
    let this = this();
    for (client, start) in [
        ("claude-code", "claude mcp add --scope user svc -- "),
        ("codex", "codex mcp add svc -- "),
    ] {
        let json = setup(&home, &[client, "--json", "--profile", "a b"], &[]).json();
        assert_eq!(
            json["command"],
            format!("{start}{this} mcp --profile 'a b'")
        );
    }

    let json = setup(&home, &["zed", "--json"], &[]).json();
    assert_eq!(json["command"], Value::Null);
}

#[test]
fn the_entry_names_the_profile_and_no_secret() {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        "[profiles.'a b']\nemail_url = \"http://127.0.0.1:9\"\n",
    );
    let env = [("SVC_EMAIL_KEY", "mk_test_secret"), ("SVC_PROFILE", "a b")];
    let args_of = |run: &Run| {
        assert!(!format!("{run:?}").contains("secret"));
        server(&run.stdout, "servers")["args"].clone()
    };

    // The client has another environment.
    assert_eq!(args_of(&setup(&home, &["vscode"], &env)), json!(["mcp"]));

    let named = setup(&home, &["vscode", "--profile", "a b"], &env);
    assert_eq!(args_of(&named), json!(["mcp", "--profile", "a b"]));

    let unknown = home.run(&["agent", "setup", "vscode", "--profile", "c"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn the_skill_is_short_and_described() {
    let home = Home::new();
    let skill = setup(&home, &["--skill"], &[]).stdout;
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

    let as_json = setup(&home, &["--jq", ".skill"], &[]).stdout;
    assert_eq!(as_json.trim_end(), skill.trim_end());
}

#[test]
fn variables_of_the_clients_name_their_directories() {
    let home = Home::new();
    for (client, variable, settings, skill) in [
        (
            "claude-code",
            "CLAUDE_CONFIG_DIR",
            ".claude.json",
            Some("skills/svc/SKILL.md"),
        ),
        ("codex", "CODEX_HOME", "config.toml", None),
        (
            "gemini",
            "GEMINI_CLI_HOME",
            ".gemini/settings.json",
            Some(".gemini/skills/svc/SKILL.md"),
        ),
    ] {
        let folder = home.path(client);
        let env = [(variable, &*folder.display().to_string())];
        let json = setup(&home, &[client, "--json"], &env).json();
        assert_eq!(
            json["settings"],
            folder.join(settings).display().to_string()
        );
        if let Some(skill) = skill {
            assert_eq!(json["skill_path"], folder.join(skill).display().to_string());
        }
    }
}

/// A package manager keeps each version in a folder of its own, and a link on the search path.
#[test]
fn the_entry_names_the_link_on_the_search_path() {
    let home = Home::new();
    let svc = home.path("bin/svc");
    fs::create_dir_all(home.path("bin")).expect("made");
    std::os::unix::fs::symlink(this(), &svc).expect("linked");
    let path = format!("relative:/usr/bin:{}", home.path("bin").display());
    let run = setup(&home, &["cursor"], &[("PATH", &path)]);
    assert_eq!(
        server(&run.stdout, "mcpServers")["command"],
        svc.display().to_string()
    );
}
