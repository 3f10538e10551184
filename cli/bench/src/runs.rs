//! The commands to measure, and their environment.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A command line to measure.
pub struct Run {
    pub name: &'static str,
    pub program: PathBuf,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
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
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(n, v)| (n, v)));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
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
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its ports");
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
        vec![
            self.svc("svc --version", "--version", &self.http),
            self.svc("svc --help", "--help", &self.http),
            self.svc("svc send, http", SEND, &self.http),
            self.svc("svc send, https", SEND, &self.https),
            self.xh("xh --version", &["--version"]),
            self.xh("xh post, http", &self.post(&self.http)),
            self.xh("xh post, https", &self.post(&self.https)),
        ]
    }

    fn svc(&self, name: &'static str, line: &str, url: &str) -> Run {
        let mut env = self.env();
        env.extend([
            ("SVC_EMAIL_URL", url.to_owned()),
            ("SVC_EMAIL_KEY", "mk_test_bench".to_owned()),
        ]);
        let args = line.split(' ').map(str::to_owned).collect();
        Run {
            name,
            program: self.svc.clone(),
            args,
            env,
        }
    }

    fn xh(&self, name: &'static str, args: &[impl AsRef<str>]) -> Run {
        let args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        Run {
            name,
            program: self.xh.clone(),
            args,
            env: self.env(),
        }
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
        vec![
            ("HOME", path("home")),
            ("SSL_CERT_FILE", path("bundle.pem")),
        ]
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
