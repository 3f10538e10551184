//! AUTH (RFC 4954). Every user name and every password is accepted. If one of them is a key, or the
//! ID or the name of an organization, the mail of the session belongs to that organization.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use smtp_proto::{AUTH_LOGIN, AUTH_PLAIN};

use crate::keys::key_rows;
use crate::store::{Reader, find_named};

/// The meaning of the client's next line.
pub(super) enum Step {
    Plain,
    LoginUser,
    LoginPassword(String),
}

/// The user name and the password.
pub(super) type Login = [String; 2];

/// The step after a response of the client.
pub(super) enum Next {
    Challenge(Step, &'static str),
    Done(Login),
    Invalid(&'static str),
}

/// Begins with the initial response, which is empty if there is none.
pub(super) fn begin(mechanism: u64, response: &str) -> Next {
    let (step, challenge) = match mechanism {
        AUTH_PLAIN => (Step::Plain, "334 "),
        AUTH_LOGIN => (Step::LoginUser, "334 VXNlcm5hbWU6"),
        _ => return Next::Invalid("504 5.5.4 only PLAIN and LOGIN are supported"),
    };
    match response {
        "" => Next::Challenge(step, challenge),
        response => step.receive(response.as_bytes()),
    }
}

impl Step {
    /// Continues with the line of the client.
    pub(super) fn receive(self, line: &[u8]) -> Next {
        if line == b"*" {
            return Next::Invalid("501 5.7.0 authentication cancelled");
        }

        // `=` stands for an empty initial response.
        let line = if line == b"=" { b"" } else { line };
        let Some(text) = BASE64
            .decode(line)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
        else {
            return Next::Invalid("501 5.5.2 the response is not Base64 of UTF-8");
        };

        match self {
            Self::Plain => match text.split('\0').collect::<Vec<_>>()[..] {
                [_, user, password] => Next::Done([user, password].map(str::to_owned)),
                _ => Next::Invalid("501 5.5.2 the response is not that of AUTH PLAIN"),
            },
            Self::LoginUser => Next::Challenge(Self::LoginPassword(text), "334 UGFzc3dvcmQ6"),
            Self::LoginPassword(user) => Next::Done([user, text]),
        }
    }
}

/// The organization that a login names.
pub(super) fn organization(reader: Reader<'_>, login: &Login) -> Option<i64> {
    let of_key = |text: &String| {
        key_rows::find(reader, text)
            .ok()?
            .map(|key| key.organization)
    };
    let named = |text: &String| find_named(reader, text).ok();
    login
        .iter()
        .rev()
        .find_map(of_key)
        .or_else(|| login.iter().find_map(named))
}
