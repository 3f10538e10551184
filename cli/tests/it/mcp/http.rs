//! `svc mcp --listen`: who is let in.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::support::{Home, Run, Watchdog, limit_time};

struct Listening {
    child: Child,
    host: String,
    token: String,
    _watchdog: Watchdog,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    fn start(home: &Home, env: &[(&str, &str)]) -> Self {
        let mut command = home.command(&["mcp", "--listen", "127.0.0.1:0"]);
        command
            .envs(env.iter().copied())
            .env("XDG_STATE_HOME", home.path("state"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let watchdog = Watchdog::start(&child);
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("a line");
        let host = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split("/mcp").next());
        let host = host.unwrap_or_else(|| panic!("{line}")).to_owned();
        let file = line
            .trim()
            .rsplit(" is in ")
            .next()
            .expect("a file")
            .to_owned();
        let token = match env.iter().find(|(name, _)| *name == "SVC_MCP_TOKEN") {
            Some((_, token)) => (*token).to_owned(),
            None => std::fs::read_to_string(&file).expect("a token"),
        };
        #[cfg(unix)]
        if env.is_empty() {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&file)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(!line.contains(&token));
        }

        Self {
            child,
            host,
            token,
            _watchdog: watchdog,
        }
    }

    /// The status and the body of the response to `initialize`.
    fn initialize(&self, host: &str, headers: &[String]) -> (u16, String) {
        self.initialize_at("/mcp", host, headers)
    }

    fn initialize_at(&self, path: &str, host: &str, headers: &[String]) -> (u16, String) {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
            .to_string();
        let mut stream = TcpStream::connect(&self.host).expect("connected");
        limit_time(&stream);
        let headers = headers
            .iter()
            .map(|line| format!("{line}\r\n"))
            .collect::<String>();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        // The stream of events stays open.
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.contains("\"serverInfo\"") {
            let length = stream.read(&mut buffer).expect("a response");
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
            let is_refused = !text.starts_with("HTTP/1.1 200") && text.contains("\r\n\r\n");
            if length == 0 || is_refused {
                break;
            }
        }

        let status = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.expect("a status"), text)
    }
}

#[test]
fn the_token_the_host_and_the_origin_are_checked() {
    let home = Home::new();
    let listening = Listening::start(&home, &[]);
    let bearer = format!("Authorization: Bearer {}", listening.token);
    let host = listening.host.as_str();
    let (status, text) = listening.initialize(host, std::slice::from_ref(&bearer));
    assert!(status == 200 && text.contains("\"svc\""), "{text}");

    let lower = format!("authorization: bearer  {}", listening.token);
    assert_eq!(listening.initialize(host, &[lower]).0, 200);
    assert_eq!(listening.initialize(host, &[]).0, 401);

    for path in ["/", "/mcp/", "/other"] {
        let (status, _) = listening.initialize_at(path, host, std::slice::from_ref(&bearer));
        assert_eq!(status, 404, "{path}");
    }

    let wrong = [
        "Authorization: Bearer x",
        "Authorization: Basic x",
        "X-Token: x",
    ];
    for wrong in wrong {
        assert_eq!(
            listening.initialize(host, &[wrong.to_owned()]).0,
            401,
            "{wrong}"
        );
    }

    for other in ["evil.test", "127.0.0.1:1", "localhost"] {
        assert_eq!(
            listening.initialize(other, std::slice::from_ref(&bearer)).0,
            403,
            "{other}"
        );
    }

    for origin in ["http://evil.test", "null", &format!("http://{host}")] {
        let headers = [bearer.clone(), format!("Origin: {origin}")];
        assert_eq!(listening.initialize(host, &headers).0, 403, "{origin}");
    }
}

#[test]
fn the_token_of_the_environment_is_used() {
    let home = Home::new();
    let listening = Listening::start(&home, &[("SVC_MCP_TOKEN", "a-token-of-mine-0")]);
    let bearer = "Authorization: Bearer a-token-of-mine-0".to_owned();
    assert_eq!(listening.initialize(&listening.host, &[bearer]).0, 200);
}

/// A session takes memory until it has been idle for five minutes, also if its client has left.
#[test]
fn the_number_of_sessions_is_bounded() {
    let home = Home::new();
    let listening = Listening::start(&home, &[]);
    let bearer = [format!("Authorization: Bearer {}", listening.token)];
    for number in 1..=64 {
        let (status, text) = listening.initialize(&listening.host, &bearer);
        assert_eq!(status, 200, "{number}: {text}");
    }

    let (status, text) = listening.initialize(&listening.host, &bearer);
    assert!(status == 503 && text.contains("64 sessions"), "{text}");

    // Those that are open are served.
    let of_session = [bearer[0].clone(), "Mcp-Session-Id: unknown".to_owned()];
    assert_eq!(listening.initialize(&listening.host, &of_session).0, 404);
}

#[test]
fn other_machines_cannot_reach_it() {
    for address in ["0.0.0.0:4090", "192.0.2.1:4090", "[::]:4090", "4090"] {
        let run: Run = Home::new().run(&["mcp", "--listen", address]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.error()["message"]
                .as_str()
                .expect("a message")
                .contains("of this machine")
        );
    }
}

#[test]
fn a_short_token_is_refused_and_a_file_becomes_private() {
    let home = Home::new();
    let mut command = home.command(&["mcp", "--listen", "127.0.0.1:0"]);
    command.env("SVC_MCP_TOKEN", "fifteen-letters");
    let run = Run::complete(command);
    assert_eq!(run.code, 2, "{run:?}");

    let message = run.error()["message"].to_string();
    assert!(
        message.contains("SVC_MCP_TOKEN") && !message.contains("fifteen"),
        "{message}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = home.file("state/svc/mcp.token", "0123456789abcdef");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).expect("changed");
        // The start examines the mode and the token.
        assert_eq!(Listening::start(&home, &[]).token, "0123456789abcdef");
    }
}
