//! Starts a PostgreSQL server, for all tests of a process.
//!
//! The tests that need it are ignored, and run with `SVC_TEST_POSTGRES=1` and `--include-ignored`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Config, NoTls};

/// A server on a Unix socket in its own directory. It stops, and the directory is deleted,
/// when its standard input is closed: when it is dropped or the test process ends.
pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
    config: Config,
    databases: AtomicU32,
}

static SHARED: OnceCell<Server> = OnceCell::const_new();

impl Server {
    pub(crate) async fn shared() -> Option<&'static Self> {
        if !is_wanted() {
            return None;
        }
        Some(SHARED.get_or_init(Self::start).await)
    }

    /// A server that a test can stop.
    pub(crate) async fn own() -> Option<Self> {
        if !is_wanted() {
            return None;
        }
        Some(Self::start().await)
    }

    async fn start() -> Self {
        let directory = TempDir::with_prefix("pg").unwrap().keep();
        let mut initdb = Command::new(binaries().join("initdb"));
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--username=svc",
            "--encoding=UTF8",
            "--locale=C",
        ]);
        let created = unprivileged(&mut initdb, &directory)
            .arg(directory.join("data"))
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(
            created.status.success(),
            "{}",
            String::from_utf8_lossy(&created.stderr)
        );

        // Not an option of the command, so that a benchmark can change it.
        let settings = directory.join("data/postgresql.conf");
        let mut settings = OpenOptions::new().append(true).open(settings).unwrap();
        writeln!(settings, "fsync = off").unwrap();

        let process = run(&directory);
        let server = Self {
            process,
            config: config_of(&directory),
            directory,
            databases: AtomicU32::new(0),
        };
        server.wait_until_ready().await;
        server
    }

    async fn wait_until_ready(&self) {
        let ready = async {
            while self.config.connect(NoTls).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), ready)
            .await
            .is_err()
        {
            let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            panic!("PostgreSQL did not start within 60 s: {log}");
        }
    }

    /// Stops the server. `INT` ends the sessions, `QUIT` is a crash.
    pub(crate) async fn stop(&self, with: &str) {
        let id = self.process_id();
        signal(with, &[id]);
        let stopped = async {
            while Path::new(&format!("/proc/{id}")).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let stopped = tokio::time::timeout(Duration::from_secs(60), stopped).await;
        stopped.expect("PostgreSQL stops within 60 s");
    }

    pub(crate) async fn start_again(&mut self) {
        // The directory is deleted if its input is closed.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = run(&self.directory);
        self.wait_until_ready().await;
    }

    /// A second server, made by a base backup, that holds what this one commits before the
    /// commit returns.
    pub(crate) async fn standby(&self) -> Self {
        let directory = TempDir::with_prefix("pg").unwrap().keep();
        let mut backup = Command::new(binaries().join("pg_basebackup"));
        backup
            .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf"])
            .args(["--username=svc", "--pgdata=data", "--host"])
            .arg(&self.directory);
        let copied = unprivileged(&mut backup, &directory)
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(
            copied.status.success(),
            "{}",
            String::from_utf8_lossy(&copied.stderr)
        );

        let standby = Self {
            process: run(&directory),
            config: config_of(&directory),
            directory,
            databases: AtomicU32::new(0),
        };
        standby.wait_until_ready().await;

        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            .await;
        self.execute("SELECT pg_reload_conf()").await;
        let is_followed = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        while self.execute(is_followed).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        standby
    }

    /// Makes this standby the primary, under the address of `lost`, which has crashed.
    pub(crate) async fn take_over_from(&self, lost: &Self) {
        self.execute("SELECT pg_promote()").await;

        const SOCKET: &str = ".s.PGSQL.5432";
        let address = lost.directory.join(SOCKET);
        // The socket of a crashed server may be left behind.
        let _ = std::fs::remove_file(&address);
        std::os::unix::fs::symlink(self.directory.join(SOCKET), address).unwrap();
    }

    /// Executes a statement. Returns how many rows it affected or returned.
    async fn execute(&self, statement: &str) -> u64 {
        let (client, connection) = self.config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client.execute(statement, &[]).await.unwrap()
    }

    /// Pauses all processes of the server, until the returned value is dropped.
    pub(crate) fn pause(&self) -> Paused {
        let id = self.process_id();
        // First, because it starts others.
        signal("STOP", &[id]);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut paused: Vec<u32> = processes
            .filter_map(|process| process.file_name().to_str()?.parse().ok())
            .filter(|process| parent(*process) == Some(id))
            .collect();
        signal("STOP", &paused);
        paused.push(id);
        Paused(paused)
    }

    fn process_id(&self) -> u32 {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    /// Creates an empty database.
    pub(crate) async fn database(&self) -> Config {
        self.database_in("UTF8").await
    }

    pub(crate) async fn database_in(&self, encoding: &str) -> Config {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'");
        self.execute(&create).await;
        let mut config = self.config.clone();
        config.dbname(name);
        config
    }
}

fn config_of(directory: &Path) -> Config {
    let mut config = Config::new();
    config.host_path(directory).user("svc").dbname("postgres");
    config
}

/// A PgBouncer in transaction mode, with fewer connections to the server than its clients have.
pub(crate) struct Bouncer {
    process: Child,
    pub(crate) directory: TempDir,
}

impl Bouncer {
    pub(crate) const PORT: u16 = 6432;

    pub(crate) fn start(server: &Server) -> Self {
        let directory = TempDir::with_prefix("bouncer").unwrap();
        let path = directory.path().display();
        let settings = format!(
            "[databases]\n* = host={} user=svc\n[pgbouncer]\nunix_socket_dir = {path}\n\
             listen_port = {}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n\
             ignore_startup_parameters = extra_float_digits\nlogfile = {path}/log\n",
            server.directory.display(),
            Self::PORT,
        );
        std::fs::write(directory.path().join("settings.ini"), settings).unwrap();
        let mut process = Command::new("pgbouncer");
        let process = unprivileged(&mut process, directory.path())
            .arg(directory.path().join("settings.ini"))
            .stderr(Stdio::null())
            .spawn()
            .expect("SVC_TEST_POSTGRES=1, but pgbouncer cannot be started");
        let socket = directory.path().join(format!(".s.PGSQL.{}", Self::PORT));
        // The file is there a moment before anything listens to it.
        for _ in 0..1000 {
            if UnixStream::connect(&socket).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }

        Self { process, directory }
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The processes of a server that is paused.
pub(crate) struct Paused(Vec<u32>);

impl Drop for Paused {
    fn drop(&mut self) {
        signal("CONT", &self.0);
    }
}

fn signal(name: &str, processes: &[u32]) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}"))
        .args(processes.iter().map(u32::to_string));
    // It fails if one of the processes has ended.
    kill.stderr(Stdio::null()).status().unwrap();
}

fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}

fn is_wanted() -> bool {
    std::env::var_os("SVC_TEST_POSTGRES").is_some_and(|value| value == "1")
}

/// Runs the server until its standard input is closed.
fn run(directory: &Path) -> Child {
    let mut shell = Command::new("sh");
    unprivileged(&mut shell, directory)
        .arg("-c")
        .arg(
            "\"$0\" -D data -k \"$PWD\" -c listen_addresses= \
             -c max_connections=200 >>log 2>&1 & cat >/dev/null; \
             kill -INT $!; wait; rm -rf \"$PWD\"",
        )
        .arg(binaries().join("postgres"))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// PostgreSQL refuses to run as root.
fn unprivileged<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    const NOBODY: u32 = 65534;
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout == b"0\n" {
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The newest version that is installed: distributions do not add it to `PATH`.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let installed = versions.map(|version| version.path().join("bin"));
    let newest = installed.filter(|path| path.join("initdb").exists()).max();
    let in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).find(|path| path.join("initdb").exists())
    };

    newest
        .or_else(in_path)
        .expect("SVC_TEST_POSTGRES=1, but initdb is not installed")
}
