//! Words that stand for the values of a type.

use std::error::Error;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use svc_sdk::Service;

/// One of these words, each of which the type reads, as clap's `value_parser`.
pub fn one_of<T>(words: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Into<Box<dyn Error + Send + Sync>>> + Clone + Send + Sync + 'static,
{
    let words: PossibleValuesParser = words.into();
    words.try_map(|word| word.parse::<T>())
}

/// `email` or `extraction`, as clap's `value_parser`.
pub fn service() -> impl TypedValueParser<Value = Service> {
    let names = Service::ALL.iter().map(|service| service.as_str());
    PossibleValuesParser::new(names).map(|name| service_named(&name))
}

/// The service of this name.
pub fn service_named(name: &str) -> Service {
    match name {
        "extraction" => Service::Extraction,
        _ => Service::Email,
    }
}
