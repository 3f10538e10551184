//! A home directory of its own for each test, and a service that answers what
//! it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A user with an empty home directory.
pub struct Home {
    dir: tempfile::TempDir,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    /// One whose path is as long on every machine, for what is printed in columns.
    #[cfg(unix)]
    pub fn short() -> Self {
        let dir = tempfile::Builder::new().prefix("svc-").rand_bytes(6).tempdir_in("/tmp");
        Self { dir: dir.expect("a directory") }
    }

    /// One in memory if the system has `/dev/shm`, for the data of a server, which syncs to disk
    /// often. Its path has the length of the one of [`short`](Self::short).
    #[cfg(unix)]
    pub fn in_memory() -> Self {
        let dir = tempfile::Builder::new().prefix("").rand_bytes(6).tempdir_in("/dev/shm");
        dir.map_or_else(|_| Self::short(), |dir| Self { dir })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the user's, and gives its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, content).expect("written");
        path.display().to_string()
    }

    /// `svc` with nothing of this machine's environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("TZ", "UTC")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().expect("svc runs"))
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Run {
        Run::of(self.command(args).envs(env.iter().copied()).output().expect("svc runs"))
    }

    /// Runs a command with something on standard input.
    pub fn feed_to(mut command: Command, input: &str) -> Run {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("svc starts");
        // Who needs none of it may have ended already.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        Run::of(child.wait_with_output().expect("svc ends"))
    }

    /// Runs with something on standard input.
    pub fn feed(&self, args: &[&str], input: impl AsRef<[u8]>) -> Run {
        let mut child = self.spawn(args);
        // Who needs none of it may have ended already.
        let _ = child.stdin.take().expect("piped").write_all(input.as_ref());
        Run::of(child.wait_with_output().expect("svc ends"))
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("svc starts")
    }

    /// Runs in the sandbox and gives the JSON that it prints.
    pub fn sandbox_json(&self, args: &[&str]) -> Value {
        let run = self.run(&[&["--sandbox"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.json()
    }
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The error object: the only line of standard error.
    #[track_caller]
    pub fn error(&self) -> Value {
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        let object: Value = serde_json::from_str(&self.stderr).expect("a JSON object");
        object["error"].clone()
    }
}

/// A service of one test: answers each request with the next of its answers,
/// the last one again and again, and keeps what it was asked.
pub struct Service {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Each answer is a whole HTTP answer; an empty one cuts the connection.
    pub fn answering(answers: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answers) = (Arc::clone(&requests), answers.to_vec());
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let Some(request) = read_request(&stream) else { continue };
                kept.lock().expect("no panic").push(request);
                let answer = answers.get(index).or(answers.last()).expect("an answer");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { addr, requests }
    }

    /// One answer to everything.
    pub fn one(status: u16, body: &str) -> Self {
        Self::answering(&[answer(status, "", body)])
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// What comes of the shortest of these times that was enough.
pub fn in_enough_time(run: impl FnMut(&'static str) -> Option<Run>) -> Run {
    ["300ms", "3s", "30s", "5m"].into_iter().find_map(run).expect("time enough")
}

/// A whole HTTP answer; `headers` are lines that each end in CRLF.
pub fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nx-request-id: req_1\r\n\
         {headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn read_request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let mut length = 0;
    loop {
        let start = request.len();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let line = &request[start..];
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.push_str(&String::from_utf8_lossy(&body));
    Some(request)
}
