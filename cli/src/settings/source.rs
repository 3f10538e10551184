//! Where a setting comes from.

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A command-line option.
    Option(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A variable in the file of `--env-file`.
    EnvFile(&'static str),
    /// The profile.
    Profile,
    /// The built-in default.
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::EnvFile(name) => write!(f, "--env-file {name}"),
            Self::Profile => f.write_str("profile"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting with its source.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Sourced<T> {
    pub(super) fn from_profile(value: T) -> Self {
        Self { value, source: Source::Profile }
    }
}
