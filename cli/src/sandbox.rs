//! The local server of this run: a running one that is found, or one inside
//! this command.
//!
//! Of two commands at once one serves both. The one that serves stays until
//! the others have let go of their lease, an answer that does not end; the
//! others hold one while they work. Where the serving command ends in the
//! moment of attaching, the other takes over.

use std::path::Path;

use crate::failure::Failure;

#[cfg(feature = "sandbox")]
pub use with_server::Sandbox;
#[cfg(not(feature = "sandbox"))]
pub use without_server::Sandbox;

#[cfg(feature = "sandbox")]
mod with_server {
    use std::time::Duration;

    use svc_reference_server::{Server, StartError, find_running};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::Mutex;
    use tokio::time::Instant;

    use super::{Failure, Path};
    use crate::failure::with_causes;

    /// How long to look for a server, or for the moment to be one.
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(20);

    /// The local server of this run.
    pub struct Sandbox {
        url: String,
        dns: std::net::SocketAddr,
        hold: Mutex<Option<Hold>>,
    }

    enum Hold {
        /// The server runs inside this command.
        Own(Box<Server>),
        /// Another process serves, and stays while this connection is open.
        Lease(#[expect(dead_code, reason = "held open, not read")] TcpStream),
    }

    impl Sandbox {
        /// The address of a server that runs on the data directory.
        pub fn running(dir: &Path) -> Option<String> {
            find_running(dir).map(|server| server.base_url())
        }

        /// The server of a data directory that is there already, for a look
        /// that takes a moment: nobody waits for it, and nobody finds it.
        pub async fn glance(dir: &Path) -> Option<Self> {
            if let Some(server) = find_running(dir) {
                let (url, dns, hold) = (server.base_url(), server.dns, Mutex::new(None));
                return Some(Self { url, dns, hold });
            }
            if !dir.is_dir() {
                return None;
            }
            let server = Server::builder().data_dir(dir).discoverable(false).start().await.ok()?;
            Some(Self {
                url: server.base_url(),
                dns: server.dns_addr(),
                hold: Mutex::new(Some(Hold::Own(Box::new(server)))),
            })
        }

        /// Finds the server of the data directory, or becomes it.
        pub async fn attach(dir: &Path) -> Result<Self, Failure> {
            let patience = Instant::now() + PATIENCE;
            loop {
                if let Some(server) = find_running(dir)
                    && let Ok(Some(lease)) = lease(server.http).await
                {
                    return Ok(Self {
                        url: server.base_url(),
                        dns: server.dns,
                        hold: Mutex::new(Some(Hold::Lease(lease))),
                    });
                }
                match Server::builder().data_dir(dir).start().await {
                    Ok(server) => {
                        return Ok(Self {
                            url: server.base_url(),
                            dns: server.dns_addr(),
                            hold: Mutex::new(Some(Hold::Own(Box::new(server)))),
                        });
                    }
                    // It has just started, or has just ended: look again.
                    Err(StartError::InUse { .. }) if Instant::now() < patience => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => {
                        return Err(Failure::other(format!(
                            "the sandbox cannot start: {}",
                            with_causes(&error)
                        ))
                        .hint(format!("its data is in {}", dir.display())));
                    }
                }
            }
        }

        /// The base address of both services and of the control interface.
        pub fn url(&self) -> &str {
            &self.url
        }

        /// Where the built-in DNS server answers.
        pub fn dns(&self) -> Option<std::net::SocketAddr> {
            Some(self.dns)
        }

        /// Lets go: a server of our own works off what is due and what others
        /// still hold, then stops.
        pub async fn finish(&self) -> Result<(), Failure> {
            match self.hold.lock().await.take() {
                Some(Hold::Own(server)) => {
                    server.stop_when_idle().await;
                    Ok(())
                }
                Some(Hold::Lease(_)) | None => Ok(()),
            }
        }
    }

    /// Asks a server to stay while the connection is open; `None` where it is
    /// about to end.
    async fn lease(host: std::net::SocketAddr) -> std::io::Result<Option<TcpStream>> {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /_sandbox/lease HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        let mut buffer = [0; 512];
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(None);
            }
            head.extend_from_slice(&buffer[..read]);
        }
        Ok(head.starts_with(b"HTTP/1.1 200").then_some(stream))
    }
}

#[cfg(not(feature = "sandbox"))]
mod without_server {
    use super::{Failure, Path};

    /// Nothing: this `svc` was built without the local server.
    pub struct Sandbox(std::convert::Infallible);

    impl Sandbox {
        pub fn running(_dir: &Path) -> Option<String> {
            None
        }

        pub async fn attach(_dir: &Path) -> Result<Self, Failure> {
            Err(absent())
        }

        pub async fn glance(_dir: &Path) -> Option<Self> {
            None
        }

        pub fn url(&self) -> &str {
            match self.0 {}
        }

        pub fn dns(&self) -> Option<std::net::SocketAddr> {
            match self.0 {}
        }

        pub async fn finish(&self) -> Result<(), Failure> {
            match self.0 {}
        }
    }

    fn absent() -> Failure {
        Failure::usage("this svc was built without the sandbox")
            .hint("build it with the cargo feature `sandbox`, which is on by default")
    }
}
