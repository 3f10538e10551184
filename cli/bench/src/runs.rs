//! The commands to measure, their environment and their limits.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A command line to measure.
pub struct Run {
    pub name: &'static str,
    pub program: PathBuf,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    pub limit: Option<Limit>,
}

/// Maximum figures of a command.
#[derive(Clone, Copy)]
pub struct Limit {
    pub cpu_ms: f64,
    pub peak_kib: u64,
}

impl Run {
    /// The command, run by the program `through` if one is given.
    pub fn command(&self, through: &[&str]) -> Command {
        let mut command = match through {
            [] => Command::new(&self.program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        command.args(&self.args).env_clear().envs(self.env.iter().map(|(n, v)| (n, v)));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// The service, and the commands that run against it.
pub struct Runs {
    svc: PathBuf,
    xh: PathBuf,
    home: tempfile::TempDir,
    service: Child,
    http: String,
    https: String,
}

impl Runs {
    pub fn start(svc: &Path, xh: &Path) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let mut service = Command::new(std::env::current_exe().expect("this program"))
            .arg("peer")
            .arg(home.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = service.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("its ports");
        let (http, https) = line.trim().split_once(' ').expect("two ports");
        Self {
            svc: svc.to_owned(),
            xh: xh.to_owned(),
            http: format!("http://127.0.0.1:{http}"),
            // The certificate is issued for this name.
            https: format!("https://localhost:{https}"),
            home,
            service,
        }
    }

    pub fn all(&self) -> Vec<Run> {
        let limit = |cpu_ms, mib: u64| Some(Limit { cpu_ms, peak_kib: mib * 1024 });
        vec![
            self.svc("svc --version", "--version", &self.http, limit(3.0, 8)),
            self.svc("svc --help", "--help", &self.http, limit(3.0, 8)),
            self.svc("svc send, http", SEND, &self.http, limit(4.0, 10)),
            self.svc(
                "svc send, https",
                SEND,
                &self.https,
                Some(Limit { cpu_ms: 9.0, peak_kib: u64::MAX }),
            ),
            self.xh("xh --version", &["--version"]),
            self.xh("xh post, http", &self.post(&self.http)),
            self.xh("xh post, https", &self.post(&self.https)),
        ]
    }

    fn svc(&self, name: &'static str, line: &str, url: &str, limit: Option<Limit>) -> Run {
        let mut env = self.env();
        env.extend([
            ("SVC_EMAIL_URL", url.to_owned()),
            ("SVC_EMAIL_KEY", "mk_test_bench".to_owned()),
        ]);
        let args = line.split(' ').map(str::to_owned).collect();
        Run { name, program: self.svc.clone(), args, env, limit }
    }

    fn xh(&self, name: &'static str, args: &[impl AsRef<str>]) -> Run {
        let args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        Run { name, program: self.xh.clone(), args, env: self.env(), limit: None }
    }

    fn post(&self, url: &str) -> Vec<String> {
        let url = format!("{url}/api/v1/emails");
        [
            "--ignore-stdin",
            "POST",
            &url,
            "authorization:Bearer mk_test_bench",
            "from=hello@sandbox.test",
            "to:=[\"ada@example.test\"]",
            "subject=Hi",
            "text=Hello",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// An empty home directory, and the bundle with the test CA.
    fn env(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.home.path().join(name).display().to_string();
        vec![("HOME", path("home")), ("SSL_CERT_FILE", path("bundle.pem"))]
    }
}

const SEND: &str =
    "emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello";

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}
