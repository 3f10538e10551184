//! Starts a PostgreSQL server, for all tests of a process.
//!
//! Without `SVC_TEST_POSTGRES=1`, the tests that need it print `NOT RUN` and pass.

use std::io::{self, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Config, NoTls};

/// A server on a Unix socket in its own directory. It stops, and the directory is deleted,
/// when its standard input is closed: when the test process ends.
pub(crate) struct Server {
    _process: Child,
    config: Config,
    databases: AtomicU32,
}

static SHARED: OnceCell<Server> = OnceCell::const_new();

impl Server {
    pub(crate) async fn shared() -> Option<&'static Self> {
        if std::env::var_os("SVC_TEST_POSTGRES").is_none_or(|value| value != "1") {
            // Written to stderr directly: the harness captures the output of passing tests.
            let written = writeln!(io::stderr(), "NOT RUN: SVC_TEST_POSTGRES is not 1");
            written.unwrap();
            return None;
        }
        Some(SHARED.get_or_init(Self::start).await)
    }

    async fn start() -> Self {
        let directory = TempDir::with_prefix("pg").unwrap().keep();
        let binaries = binaries();
        let mut initdb = Command::new(binaries.join("initdb"));
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
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));

        let mut shell = Command::new("sh");
        let process = unprivileged(&mut shell, &directory)
            .arg("-c")
            .arg(
                "\"$0\" -D data -k \"$PWD\" -c listen_addresses= -c fsync=off \
                 -c max_connections=200 >log 2>&1 & cat >/dev/null; \
                 kill -INT $!; wait; rm -rf \"$PWD\"",
            )
            .arg(binaries.join("postgres"))
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut config = Config::new();
        config.host_path(&directory).user("svc").dbname("postgres");
        let ready = async {
            while config.connect(NoTls).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), ready).await.is_err() {
            let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
            panic!("PostgreSQL did not start within 60 s: {log}");
        }
        Self { _process: process, config, databases: AtomicU32::new(0) }
    }

    /// Creates an empty database.
    pub(crate) async fn database(&self) -> Config {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let (client, connection) = self.config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let mut config = self.config.clone();
        config.dbname(name);
        config
    }
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
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin"));
    let newest = installed.filter(|path| path.join("initdb").exists()).max();
    let in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).find(|path| path.join("initdb").exists())
    };
    newest.or_else(in_path).expect("SVC_TEST_POSTGRES=1, but initdb is not installed")
}
