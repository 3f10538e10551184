//! The environment of a run: a server that is reset before each run, with a frozen clock, and a home
//! directory with a few files.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use svc_cli::Terminals;

use super::mask::Mask;
use super::row::{Act, Run, Setup};
use crate::pty::{self, Terminal};
use crate::support::{self, Home, Service, needs_process};
use crate::words::words;

/// Files that command lines use.
const FILES: &[(&str, &str)] = &[
    (
        "body.json",
        r#"{"id":"evt_1","event":"email.sent","data":{"emailId":"eml_1"}}"#,
    ),
    (
        "email.json",
        r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hi","text":"Hello"}"#,
    ),
    // A delivery that `svc listen` recorded.
    (
        "data/svc/deliveries/rec_1.json",
        r#"{"id": "rec_1", "received_at": "2020-01-04T09:00:00.000Z", "service": "email", "event": "email.sent", "event_id": "evt_1", "headers": [["content-type", "application/json"], ["Mail-Event", "email.sent"]], "body": "eyJldmVudCI6ImVtYWlsLnNlbnQiLCJpZCI6ImV2dF8xIiwiY3JlYXRlZCI6IjIwMjYtMDEtMDRUMDk6MDA6MDAuMDAwWiIsImRhdGEiOnsiZW1haWxJZCI6ImVtbF8xIn19", "forwarded_to": null, "secret_file": null}"#,
    ),
    (
        "emails.json",
        r#"[{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hi","text":"Hello"},
  {"from":"hello@sandbox.test","to":"bob@example.test","subject":"Hi","text":"Hello"}]"#,
    ),
    (
        "partly.ndjson",
        r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hi","text":"Hello"}
{"from":"hello@elsewhere.test","to":"bob@example.test","subject":"Hi","text":"Hello"}
"#,
    ),
    ("empty.txt", ""),
    (
        "good.csv",
        "email,name,topics,plan\nada@example.test,Ada Lovelace,\"news,offers\",pro\nbob@example.test,Bob,,free\n",
    ),
    ("key.txt", "mk_test_sandbox\n"),
    ("extraction-key.txt", "sk_test_sandbox\n"),
    ("wrong-key.txt", "mk_test_unknown\n"),
    (
        "list.csv",
        "Email,First Name,subscribed\nada@example.test,Ada,yes\nbob@example.test,Bob,no\neve@example.test,,yes\nbob@example,Bob,\nnobody,No,\nADA@example.test,Ada,\n",
    ),
    (
        "message.eml",
        "From: ada@example.test\r\nTo: hello@sandbox.test\r\nSubject: Hi\r\n\r\nHello\r\n",
    ),
    ("notes.txt", "what was said\n"),
    (
        "people.csv",
        "email,name,topics,plan\nada@example.test,Ada Lovelace,\"news,offers\",pro\nbob@example.test,Bob,,free\nnobody,,,\n",
    ),
    ("report.html", "<h1>Report</h1><p>All is <b>well</b>.</p>"),
    ("secret.txt", "whsec_3f1c\n"),
    ("welcome.html", "<p>Welcome, {{ name }}</p>"),
];

/// A server for one test.
pub struct World {
    child: Child,
    http: String,
    dns: String,
    data: Home,
    application: Service,
}

impl World {
    pub fn start() -> Self {
        let data = Home::short();
        let mut child = data
            .command(&["sandbox", "serve", "--addr", "127.0.0.1:0", "--data"])
            .arg(data.path("server"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("svc starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        let text = |key: &str| ready[key].as_str().expect("an address").to_owned();
        let http = text("http");
        let dns = text("dns");
        Self {
            child,
            http,
            dns,
            data,
            application: Service::always(200, "taken"),
        }
    }

    /// Resets the server, freezes its clock, and creates a home directory with the files.
    pub fn scene(&self) -> Scene<'_> {
        self.control("reset", &json!({}));
        let clock = self.control("clock", &json!({"freeze": true}));
        let now = clock["now"]
            .as_str()
            .expect("a time")
            .parse::<DateTime<Utc>>()
            .expect("a time");
        let home = Home::short();
        for (name, content) in FILES {
            home.file(name, content);
        }

        let mut mask = Mask::new(now);
        mask.literally(
            home.path("").display().to_string().trim_end_matches('/'),
            "/home/ada/tests",
        );
        mask.literally(
            &self.data.path("server").display().to_string(),
            "/home/ada/.data/server",
        );
        let this = std::env::current_exe()
            .expect("a path")
            .display()
            .to_string();
        for svc in [&this, env!("CARGO_BIN_EXE_svc")] {
            mask.shortened(svc, "/usr/bin/svc");
        }

        for (url, shown) in [(&self.http, "40800"), (&self.application.url(), "43000")] {
            let port = url.rsplit(':').next().expect("a port");
            mask.port(port, shown);
        }

        mask.port(self.dns.rsplit(':').next().expect("a port"), "40853");
        Scene {
            world: self,
            home,
            names: Vec::new(),
            mask,
        }
    }

    /// A request to the control interface.
    fn control(&self, path: &str, body: &Value) -> Value {
        let host = self.http.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("the server listens");
        let body = body.to_string();
        let request = format!(
            "POST /_sandbox/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        assert!(response.starts_with("HTTP/1.1 20"), "{path}: {response}");

        let (_, body) = response.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// Keys with a scope that the command does not need.
    fn other_keys(&self, spec: &str) -> (String, String) {
        let scope = if spec.starts_with("emails") || spec.starts_with("bulk") {
            "contacts:manage"
        } else {
            "emails:read"
        };
        let key = |body: &Value| {
            self.control("keys", body)["key"]
                .as_str()
                .expect("a key")
                .to_owned()
        };
        (
            key(&json!({"service": "email", "scopes": [scope]})),
            key(&json!({"service": "extraction", "scope": "extract_only"})),
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server and the home directory of one run.
pub struct Scene<'w> {
    world: &'w World,
    home: Home,
    names: Vec<(String, String)>,
    pub mask: Mask,
}

/// The result of a run, masked.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Scene<'_> {
    /// Numbers ids from one again, for the next run in this scene.
    pub fn forget_masked_values(&mut self) {
        self.mask.forget();
    }

    /// Runs a preparing command line and keeps its output under its name.
    pub fn prepare(&mut self, given: &str) {
        let (name, line) = match given.split_once('=') {
            Some((name, line)) if !name.contains(' ') => (Some(name), line),
            _ => (None, given),
        };
        let line = self.fill(line);
        let run = self.completed(&line, "", Setup::Keys, &[]);
        assert_eq!(run.code, 0, "{line}: {run:?}");
        if let Some(name) = name {
            self.names
                .push((format!("${name}"), run.stdout.trim_end().to_owned()));
        }
    }

    /// Runs with both output streams piped, as scripts do.
    pub fn piped(&mut self, spec: &str, run: &Run) -> Outcome {
        let line = self.fill(&run.line);
        if !run.cues.iter().any(|(_, act)| !matches!(act, Act::Type(_))) {
            let run = self.completed(&line, spec, run.setup, &run.env);
            let stdout = self.mask.apply(&run.stdout);
            let stderr = self.mask.apply(&run.stderr);
            return Outcome {
                code: run.code,
                stdout,
                stderr,
            };
        }

        let mut command = self.command(&line, spec, run.setup);
        command
            .envs(run.env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("svc starts");
        let mut errors = child.stderr.take().expect("piped");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let mut output = child.stdout.take().expect("piped");
        let mut stdout = Vec::new();
        let mut at = 0;
        for (cue, act) in run
            .cues
            .iter()
            .filter(|(_, act)| !matches!(act, Act::Type(_)))
        {
            at = pty::read_until(&mut output, &mut stdout, at, cue);
            self.act(*act, run, &child);
        }

        output.read_to_end(&mut stdout).expect("read");
        let stdout = String::from_utf8(stdout).expect("UTF-8");
        let code = child.wait().expect("ends").code().unwrap_or(-1);
        let stderr = errors.join().expect("read");
        Outcome {
            code,
            stdout: self.mask.apply(&stdout),
            stderr: self.mask.apply(&stderr),
        }
    }

    /// Runs on a terminal, as people do. A case in which nothing is typed runs inside this process.
    pub fn on_terminal(&mut self, spec: &str, run: &Run) -> Outcome {
        let line = self.fill(&run.line);
        let mut command = self.command(&line, spec, run.setup);
        command
            .env("TERM", "xterm-256color")
            .envs(run.env.iter().copied());
        if run.cues.is_empty() && !needs_process(&command) {
            let input = self.input(&line);
            let terminals = Terminals {
                stdin: input.is_none(),
                stdout: true,
                stderr: true,
                width: Some(run.columns.into()),
            };
            let run = support::Run::in_process(&command, &input.unwrap_or_default(), terminals);
            let stdout = self.mask.apply(&run.stdout);
            return Outcome {
                code: run.code,
                stdout,
                stderr: String::new(),
            };
        }

        let mut terminal = Terminal::run(command, run.columns, self.stdin(&line));
        let mut at = 0;
        for (cue, act) in &run.cues {
            at = terminal.until_after(at, cue);
            match act {
                Act::Type(text) => terminal.write(&self.fill(text)),
                act => self.act(*act, run, terminal.child()),
            }
        }

        let seen = terminal.end();
        Outcome {
            code: seen.code,
            stdout: self.mask.apply(&seen.raw),
            stderr: String::new(),
        }
    }

    /// A command line with masked values.
    pub fn shown(&mut self, line: &str) -> String {
        let line = self.fill(line);
        self.mask.apply(&line)
    }

    fn act(&self, act: Act, run: &Run, child: &Child) {
        match act {
            Act::Type(_) => {}
            Act::Run(line) => {
                let line = self.fill(line);
                let run = self.completed(&line, "", Setup::Keys, &run.env);
                assert_eq!(run.code, 0, "{line}: {run:?}");
            }
            Act::Signal(name) => {
                let pid = child.id().to_string();
                assert!(
                    Command::new("kill")
                        .args([name, &pid])
                        .status()
                        .expect("runs")
                        .success()
                );
            }
        }
    }

    fn fill(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (name, value) in &self.names {
            line = line.replace(name, value);
        }

        let line = line
            .replace("$server", &self.world.http)
            .replace("$dns", &self.world.dns)
            .replace("$application", &self.world.application.url());
        // Names without a value stand for ids that the run does not reach.
        line.replace('$', "id_of_")
    }

    /// A text with the values of this scene.
    pub fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.names {
            text = text.replace(name, value);
        }
        text.replace("$server", &self.world.http)
            .replace("$application", &self.world.application.url())
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Gives a program other than `svc` the home directory, base URLs and keys.
    pub fn configure(&self, command: &mut Command) {
        let svc = self.command("--version", "", Setup::Keys);
        command.env_clear().current_dir(self.home.path(""));
        command.envs(
            svc.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    }

    /// A key on standard input.
    pub fn key(&self) -> File {
        File::open(self.home.path("key.txt")).expect("one of the files")
    }

    /// Lets the clock of the server run again.
    pub fn resume_clock(&self) {
        self.world.control("clock", &json!({"resume": true}));
    }

    /// The signature of `body.json` by `secret.txt`.
    pub fn signature(&self) -> String {
        let line = "sign --service email --secret-file secret.txt --jq .signature body.json";
        self.completed(line, "", Setup::Keys, &[])
            .stdout
            .trim_end()
            .to_owned()
    }

    /// Runs a command line to its end.
    fn completed(
        &self,
        line: &str,
        spec: &str,
        setup: Setup,
        env: &[(&str, &str)],
    ) -> support::Run {
        let mut command = self.command(line, spec, setup);
        command.envs(env.iter().copied());
        support::Run::of_command(command, &self.input(line).unwrap_or_default())
    }

    /// What a command line's `< file` reads.
    fn input(&self, line: &str) -> Option<Vec<u8>> {
        let (_, file) = line.split_once(" < ")?;
        Some(std::fs::read(self.home.path(file)).expect("one of the files"))
    }

    /// A command line without its `< file`.
    fn command(&self, line: &str, spec: &str, setup: Setup) -> Command {
        let (typed, _) = line.split_once(" < ").unwrap_or((line, ""));
        let typed = words(typed);
        let mut command = self
            .home
            .command(&typed.iter().map(String::as_str).collect::<Vec<_>>());
        command
            .env("LANG", "C.UTF-8")
            .env("SVC_SANDBOX_DIR", self.world.data.path("server"));
        if let Some(stdin) = self.stdin(line) {
            command.stdin(stdin);
        }
        let url = if setup == Setup::Unreachable {
            "http://127.0.0.1:9"
        } else {
            &self.world.http
        };
        if setup != Setup::Nothing {
            command
                .env("SVC_EMAIL_URL", url)
                .env("SVC_EXTRACTION_URL", url);
        }

        let keys = match setup {
            Setup::Keys | Setup::Unreachable => {
                Some(("mk_test_sandbox".to_owned(), "sk_test_sandbox".to_owned()))
            }
            Setup::OtherScope => Some(self.world.other_keys(spec)),
            Setup::Nothing | Setup::BaseUrls => None,
        };
        if let Some((email, extraction)) = keys {
            command
                .env("SVC_EMAIL_KEY", email)
                .env("SVC_EXTRACTION_KEY", extraction);
        }

        command
    }

    fn stdin(&self, line: &str) -> Option<Stdio> {
        let (_, file) = line.split_once(" < ")?;
        Some(
            File::open(self.home.path(file))
                .expect("one of the files")
                .into(),
        )
    }
}
