//! Test fixtures: a temporary home directory, runs of `svc` in it, and a scripted HTTP service.
//!
//! `svc` runs inside the process of the tests, except where a test needs a process: for signals,
//! terminals, kills, programs that run at the same time, and the exit codes of the binary.
//!
//! Tests behave the same however they are started: children get the default signal dispositions
//! ([`reset_ignored_signals`]), and everything that waits for a process or a connection has a
//! limit ([`TIME_LIMIT`]).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_cli::{Process, Terminals, Zone};

/// The longest that a test waits for a process or a connection.
pub const TIME_LIMIT: Duration = Duration::from_secs(90);

/// A user with an empty home directory.
pub struct Home {
    dir: tempfile::TempDir,
}

/// A sandbox that serves until it is dropped.
pub struct Serving(Child);

impl Serving {
    pub fn start(home: &Home) -> Self {
        let mut child = home.spawn(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.as_mut().expect("piped"));
        stdout.read_line(&mut ready).expect("it serves");
        Self(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// For a directory that only its owner can use, whatever the umask, as a home is: a server refuses
/// a data directory that others can replace.
fn private<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder
}

impl Home {
    /// In memory if the system has `/dev/shm`: a server syncs its data to disk often.
    pub fn new() -> Self {
        let dir = private()
            .prefix("svc-")
            .rand_bytes(6)
            .tempdir_in("/dev/shm");
        let dir = dir.or_else(|_| private().tempdir());
        Self {
            dir: dir.expect("a directory"),
        }
    }

    /// A home whose path has the same length on every machine, for output in columns.
    #[cfg(unix)]
    pub fn short() -> Self {
        let dir = private().prefix("").rand_bytes(6).tempdir_in("/dev/shm");
        let dir = dir.or_else(|_| private().prefix("svc-").rand_bytes(6).tempdir_in("/tmp"));
        Self {
            dir: dir.expect("a directory"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in the home directory and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        let mut folders = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders
            .recursive(true)
            .create(path.parent().expect("a parent"))
            .expect("created");
        std::fs::write(&path, content).expect("written");
        path.display().to_string()
    }

    /// `svc` without the environment of the test run.
    pub fn command(&self, args: &[&str]) -> Command {
        reset_ignored_signals();
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
        Run::complete(self.command(args))
    }

    /// As [`run`](Self::run), in a process of its own.
    pub fn run_spawned(&self, args: &[&str]) -> Run {
        Run::wait(self.spawn(args))
    }

    pub fn run_with_env(&self, args: &[&str], env: &[(&str, &str)]) -> Run {
        let mut command = self.command(args);
        command.envs(env.iter().copied());
        Run::complete(command)
    }

    /// Runs a command with this text on standard input.
    pub fn run_command_with_input(command: Command, input: &str) -> Run {
        Run::of_command(command, input.as_bytes())
    }

    /// Runs with these bytes on standard input.
    pub fn run_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> Run {
        Run::of_command(self.command(args), input.as_ref())
    }

    /// Starts `svc` with all three streams piped.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("svc starts")
    }

    /// Runs in the sandbox, expects success, and returns the JSON on standard output.
    pub fn sandbox_json(&self, args: &[&str]) -> Value {
        let run = self.run(&[&["--sandbox"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.json()
    }
}

impl Run {
    /// Runs a command to its end.
    pub fn complete(command: Command) -> Self {
        Self::of_command(command, b"")
    }

    /// Runs a command with these bytes on standard input: inside this process, unless it depends on
    /// what only a process has.
    pub fn of_command(mut command: Command, input: &[u8]) -> Self {
        if !needs_process(&command) {
            return Self::in_process(&command, input, Terminals::default());
        }

        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("svc starts");
        let watchdog = Watchdog::start(&child);
        // The child may exit before reading its input.
        let _ = child.stdin.take().expect("piped").write_all(input);
        drop(watchdog);
        Self::wait(child)
    }

    /// Calls `svc` inside this process, on a thread with the stack of a main thread. If both output
    /// streams are terminals, they are the same one, and `stdout` has what it shows.
    pub fn in_process(command: &Command, input: &[u8], terminals: Terminals) -> Self {
        let program = command.get_program().to_owned();
        let args = std::iter::once(program).chain(command.get_args().map(ToOwned::to_owned));
        let args = args.collect::<Vec<_>>();
        let env = command.get_envs();
        let env = env.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let stdout = Captured::default();
        let stderr = Captured::default();
        let one_screen = terminals.stdout && terminals.stderr;
        let process = Process {
            env: env.collect(),
            cwd: command.get_current_dir().expect("a home").to_owned(),
            zone: Zone::Fixed(chrono::FixedOffset::east_opt(0).expect("UTC")),
            stdin: Box::new(std::io::Cursor::new(input.to_vec())),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(if one_screen {
                stdout.clone()
            } else {
                stderr.clone()
            }),
            terminals,
            signals: false,
            approval: None,
        };
        let (done, ended) = mpsc::channel();
        let shown = format!("{:?}", command.get_args().collect::<Vec<_>>());
        let thread = std::thread::Builder::new().stack_size(16 << 20);
        let run = move || done.send(svc_cli::run(&args, process)).unwrap_or_default();
        thread.spawn(run).expect("a thread");
        let code = ended.recv_timeout(TIME_LIMIT);
        let code = code.unwrap_or_else(|error| panic!("svc {shown}: {error}"));
        Self {
            code: code.into(),
            stdout: stdout.text(),
            stderr: stderr.text(),
        }
    }

    /// Waits for a process and collects its output.
    pub fn wait(child: Child) -> Self {
        let _watchdog = Watchdog::start(&child);
        Self::of(child.wait_with_output().expect("svc ends"))
    }

    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The error object, which must be the last line of standard error. Only notes and warnings
    /// may precede it.
    #[track_caller]
    pub fn error(&self) -> Value {
        let mut lines = self.stderr.lines();
        let last = lines
            .next_back()
            .unwrap_or_else(|| panic!("no error: {self:?}"));
        let is_marked = |line: &str| line.starts_with("note: ") || line.starts_with("warning: ");
        assert!(lines.all(is_marked), "{self:?}");
        let object: Value = serde_json::from_str(last).expect("a JSON object");
        object["error"].clone()
    }
}

/// Whether a command depends on what only a process has.
pub fn needs_process(command: &Command) -> bool {
    let of_environment = command.get_envs().any(|(name, value)| match name.to_str() {
        // The libraries that use them read the environment of the process.
        Some("SSL_CERT_FILE" | "DBUS_SESSION_BUS_ADDRESS" | "SVC_COMPLETE") => true,
        Some("TZ") => value.is_none_or(|zone| zone != "UTC"),
        _ => false,
    });
    // The protocol is spoken on the streams of the process itself.
    of_environment || command.get_args().next() == Some("mcp".as_ref())
}

/// What a run inside this process has written to a stream.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("UTF-8")
    }
}

impl std::io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A scripted HTTP service: it sends the given responses in order, repeats the last one, and
/// records the requests.
pub struct Service {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Sends these raw HTTP responses. An empty one closes the connection.
    pub fn with_responses(responses: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let responses = responses.to_vec();
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                limit_time(&stream);
                let Some(request) = read_request(&stream) else {
                    continue;
                };
                log.lock().expect("no panic").push(request);
                let response = responses
                    .get(index)
                    .or(responses.last())
                    .expect("a response");
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self { addr, requests }
    }

    /// Sends the same response to every request.
    pub fn always(status: u16, body: &str) -> Self {
        Self::with_responses(&[http_response(status, "", body)])
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// A listener on a free port, with its base URL.
pub fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, url)
}

/// Accepts a connection, and panics if none arrives within [`TIME_LIMIT`].
#[track_caller]
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("set");
    let accepted = wait_until("a connection", || listener.accept().ok());
    listener.set_nonblocking(false).expect("set");
    let (stream, _) = accepted;
    stream.set_nonblocking(false).expect("set");
    limit_time(&stream);
    stream
}

/// Checks a condition every 5 ms, and panics if it is not met within [`TIME_LIMIT`].
#[track_caller]
pub fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(met) = condition() {
            return met;
        }
        assert!(
            Instant::now() < deadline,
            "waited {} s for {what}",
            TIME_LIMIT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Limits how long a connection may be silent.
pub fn limit_time(stream: &TcpStream) {
    stream.set_read_timeout(Some(TIME_LIMIT)).expect("set");
    stream.set_write_timeout(Some(TIME_LIMIT)).expect("set");
}

/// Runs with longer and longer values of `--timeout` until one is sufficient, as `run` decides.
pub fn with_longer_timeouts(run: impl FnMut(&'static str) -> Option<Run>) -> Run {
    let timeouts = ["300ms", "3s", "20s", "60s"];
    let found = timeouts.into_iter().find_map(run);
    found.unwrap_or_else(|| panic!("none of these timeouts was sufficient: {timeouts:?}"))
}

/// Whether everything is tried, as the tests that need databases do, and not a part of it.
pub fn is_everything() -> bool {
    std::env::var_os("SVC_TEST_EVERYTHING").is_some()
}

/// A raw HTTP response. `headers` are lines that each end in CRLF.
pub fn http_response(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nx-request-id: req_1\r\n\
         {headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Kills a process after [`TIME_LIMIT`], so that a test that reads its output or waits for it fails
/// instead of hanging. Dropping the watchdog disarms it.
pub struct Watchdog {
    expired: Arc<AtomicBool>,
    _disarm: mpsc::Sender<()>,
}

impl Watchdog {
    pub fn start(child: &Child) -> Self {
        let pid = child.id().to_string();
        let expired = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&expired);
        let (disarm, disarmed) = mpsc::channel();
        std::thread::spawn(move || {
            if disarmed.recv_timeout(TIME_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                shared.store(true, Ordering::SeqCst);
                let message = format!("killed process {pid}: still running after {TIME_LIMIT:?}\n");
                // Directly, because the test harness captures only the test's own thread.
                let _ = std::io::stderr().write_all(message.as_bytes());
                kill(&pid);
            }
        });
        Self {
            expired,
            _disarm: disarm,
        }
    }

    /// Whether the process was killed.
    pub fn expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }
}

fn kill(pid: &str) {
    let _ = if cfg!(windows) {
        Command::new("taskkill").args(["/F", "/PID", pid]).status()
    } else {
        Command::new("kill").args(["-KILL", pid]).status()
    };
}

/// Gives child processes the default action for signals that this process ignores.
///
/// A test run in the background of a shell, or under `nohup`, ignores SIGINT or SIGHUP, and child
/// processes inherit that. `exec` resets handled signals to the default action but leaves ignored
/// ones ignored. This function therefore installs a handler for each ignored signal; the handler
/// does nothing, so this process still ignores it.
#[cfg(unix)]
fn reset_ignored_signals() {
    use std::sync::Once;

    use tokio::signal::unix::{SignalKind, signal};

    static ONCE: Once = Once::new();

    ONCE.call_once(|| {
        // Without `/proc`, no signal is known to be ignored.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
        ];
        for kind in kinds {
            if mask >> (kind.as_raw_value() - 1) & 1 == 1 {
                // The handler stays installed when the stream is dropped.
                drop(signal(kind).expect("a handler"));
            }
        }
    });
}

#[cfg(not(unix))]
fn reset_ignored_signals() {}

pub fn read_request(stream: &TcpStream) -> Option<String> {
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
