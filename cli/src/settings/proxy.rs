//! Proxies set in the environment or in the file of `--env-file`.

use svc_sdk::Secret;

use super::Env;

const HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const EXCEPT: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Proxies from the environment and the file. The environment takes precedence.
#[derive(Default)]
pub struct Proxies {
    https: Option<Secret>,
    http: Option<Secret>,
    /// Hosts to connect to directly, in the format of `NO_PROXY`.
    pub except: String,
}

impl Proxies {
    /// Resolves the proxies.
    pub fn resolve(env: &Env, file: &Env) -> Self {
        let named = |names: &[&str]| {
            let of = |from: &Env| {
                names
                    .iter()
                    .find_map(|name| from.get(name))
                    .map(str::to_owned)
            };
            of(env).or_else(|| of(file))
        };
        Self {
            https: named(&HTTPS).map(Secret::new),
            http: named(&HTTP).map(Secret::new),
            except: named(&EXCEPT).unwrap_or_default(),
        }
    }

    /// The proxy for requests to this URL.
    pub fn of(&self, url: &str) -> Option<Secret> {
        if url.starts_with("https:") {
            self.https.clone()
        } else {
            self.http.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_takes_precedence_over_the_file() {
        let env = Env::from([("https_proxy", "http://env:1"), ("NO_PROXY", "here")]);
        let file = Env::from([
            ("HTTPS_PROXY", "http://file:1"),
            ("ALL_PROXY", "http://file:2"),
            ("NO_PROXY", "there"),
        ]);
        let seen = |env: &Env, url| {
            let proxies = Proxies::resolve(env, &file);
            (
                proxies.of(url).map(|url| url.expose().to_owned()),
                proxies.except,
            )
        };

        let expected = |url: &str, except: &str| (Some(url.to_owned()), except.to_owned());
        assert_eq!(
            seen(&env, "https://a.test"),
            expected("http://env:1", "here")
        );
        assert_eq!(
            seen(&env, "http://a.test"),
            expected("http://file:2", "here")
        );
        assert_eq!(
            seen(&Env::default(), "https://a.test"),
            expected("http://file:1", "there")
        );
    }
}
