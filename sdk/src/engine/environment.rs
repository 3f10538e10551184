//! Environment variables.

use std::env::VarError;

use crate::error::Error;
use crate::operation::Service;

/// Reads a variable: `std::env::var`, or that of a test.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Result<String, VarError>;

/// The text of a variable, `None` if it is not set. An empty variable is more likely a mistake
/// than a choice.
pub(crate) fn variable(name: &str, read: Read<'_>) -> Result<Option<String>, Error> {
    match read(name) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
        Ok(_) => Err(Error::config(format!(
            "the environment variable {name} is empty"
        ))),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Error::config(format!(
            "the environment variable {name} is not UTF-8"
        ))),
    }
}

/// The base URL and the API key of a service.
pub(crate) fn address_from_env(service: Service) -> Result<[String; 2], Error> {
    let service = service.as_str().to_uppercase();
    let read = |what| {
        required(&format!("SVC_{service}_{what}"), &|name| {
            std::env::var(name)
        })
    };
    Ok([read("URL")?, read("KEY")?])
}

/// Like [`variable`], for one that must be set.
fn required(name: &str, read: Read<'_>) -> Result<String, Error> {
    variable(name, read)?
        .ok_or_else(|| Error::config(format!("the environment variable {name} is not set")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_environment_variable_that_is_missing() {
        let read = |name: &str| match name {
            "URL" => Ok(" https://x.test\n".to_owned()),
            "EMPTY" => Ok(" ".to_owned()),
            _ => Err(VarError::NotPresent),
        };

        assert_eq!(required("URL", &read).expect("it is set"), "https://x.test");
        assert_eq!(variable("KEY", &read).expect("it may be missing"), None);
        let error = required("KEY", &read).expect_err("no key");
        assert_eq!(error.to_string(), "the environment variable KEY is not set");
        let error = variable("EMPTY", &read).expect_err("empty");
        assert_eq!(error.to_string(), "the environment variable EMPTY is empty");
    }
}
