//! The names of an enumeration's values in JSON are its names everywhere.

/// Implements `Display` and `FromStr` by the names that serde uses.
macro_rules! names {
    ($($type:ty),*) => { $(
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }

        impl std::str::FromStr for $type {
            type Err = serde::de::value::Error;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                serde::Deserialize::deserialize(serde::de::IntoDeserializer::into_deserializer(name))
            }
        }
    )* };
}
