//! The server as a separate process, which is this program started again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_reference_server::Server;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) const SERVE: &str = "serve";
/// Used in place of a directory for an in-memory database.
pub(crate) const MEMORY: &str = "memory";

/// Main function of the server process: serves until its standard input is closed, or until
/// SIGTERM. `option` is the name server to ask, or empty for the name servers of the system.
pub(crate) fn serve(location: &str, option: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let any_port = "127.0.0.1:0".parse().unwrap();
        let builder = Server::builder().smtp(any_port);
        let builder = match option {
            "" => builder,
            addr => builder.resolver(addr.parse().unwrap()),
        };
        let builder = if location == MEMORY {
            builder.in_memory()
        } else {
            builder.data_dir(location)
        };
        let started = Instant::now();
        let server = builder.start().await.unwrap();
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let addresses = server.addresses();
        println!("{} {} {ms}", addresses.http, addresses.smtp.unwrap());
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        let mut terminated = signal(SignalKind::terminate()).unwrap();
        tokio::select! {
            _ = ended => {}
            _ = terminated.recv() => {}
        }
        server.stop().await;
        // A thread still reads the standard input.
        std::process::exit(0);
    });
}

pub(crate) struct Process {
    child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) smtp: SocketAddr,
    /// Duration of `Builder::start`.
    pub(crate) start_ms: f64,
    /// Time from the start of the process until the server was ready.
    pub(crate) ready_ms: f64,
}

impl Process {
    pub(crate) fn start(location: &Path) -> Self {
        Self::start_with(location, None)
    }

    /// Starts a server that asks this name server.
    pub(crate) fn start_with(location: &Path, resolver: Option<SocketAddr>) -> Self {
        Self::launch(
            location,
            &resolver.map(|addr| addr.to_string()).unwrap_or_default(),
        )
    }

    fn launch(location: &Path, option: &str) -> Self {
        let started = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(SERVE)
            .arg(location)
            .arg(option)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready_ms = started.elapsed().as_secs_f64() * 1e3;
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [addr, smtp, ms] = parts[..] else {
            panic!("not the line of a server: {line}")
        };
        let addr = addr.parse().unwrap();
        let smtp = smtp.parse().unwrap();
        Self {
            child,
            addr,
            smtp,
            start_ms: ms.parse().unwrap(),
            ready_ms,
        }
    }

    /// Sends a request. Panics unless the status is 2xx.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, body) = self.request(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {body}"
        );
        serde_json::from_str(&body).unwrap_or(Value::String(body))
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        let addr = self.addr;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer mk_test_sandbox\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// Waits until no work is pending.
    pub(crate) fn settle(&self) {
        self.call("POST", "/_sandbox/settle", r#"{"timeout":"10m"}"#);
    }

    /// Current resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        self.memory_mib("VmRSS:")
    }

    /// Largest resident memory so far in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.memory_mib("VmHWM:")
    }

    fn memory_mib(&self, name: &str) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.unwrap_or(f64::NAN) / 1024.0
    }

    /// Ends the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the process with SIGTERM. Returns how long that took.
    pub(crate) fn terminate(mut self) -> Duration {
        let sent = Instant::now();
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        assert!(self.child.wait().unwrap().success(), "the server failed");
        sent.elapsed()
    }

    pub(crate) fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success(), "the server failed");
    }
}
