//! Declarations that several types share: enums of documented names, and `Debug`
//! implementations without content.

/// Defines an enum of documented strings, and other words for the same, that preserves unknown
/// strings. It has to be read by `From<&str>`.
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal $(| $other:literal)*, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// An undocumented value, unmodified.
            Other(String),
        }

        impl $name {
            /// The value as it appears in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Other(text) => text,
                }
            }

            /// The value that a word means.
            pub(crate) fn from_word(word: &str) -> Option<Self> {
                Some(match word {
                    $( $text $(| $other)* => Self::$variant, )+
                    _ => return None,
                })
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use text_enum;

/// Defines an enum of names that has no others.
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name, which `Display` writes, too.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use named_enum;

/// Implements `Debug` with these fields only, because the others may be secrets or the content
/// of emails. A new field is hidden until it is listed here.
macro_rules! debug_fields {
    ($name:ident$(<$parameter:ident>)?: $($field:ident),*) => {
        impl$(<$parameter>)? std::fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $( .field(stringify!($field), &self.$field) )*
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_fields;

/// Defines methods that change one field and return the value, so that they chain:
/// `html(html: String) { html = Some(html) }` sets `self.html`.
macro_rules! setters {
    (
        $(#[$impl_meta:meta])*
        impl$(<$parameter:ident>)? $type:ident$(<$argument:ident>)?;
        $(
            $(#[$meta:meta])*
            $name:ident($($value:ident: $value_type:ty),*) { $($change:tt)+ }
        )+
    ) => {
        $(#[$impl_meta])*
        impl$(<$parameter>)? $type$(<$argument>)? {
            $(
                $(#[$meta])*
                pub fn $name(mut self, $($value: $value_type),*) -> Self {
                    self.$($change)+;
                    self
                }
            )+
        }
    };
}
pub(crate) use setters;
