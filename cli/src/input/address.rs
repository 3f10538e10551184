//! Parses listen addresses.

use std::net::SocketAddr;

/// Parses `IP:PORT`, as clap's `value_parser`. Errors show the address that was probably meant.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }

    let port = text.rsplit_once(':').map_or(text, |(_, port)| port);
    let host = text.rsplit_once(':').map_or("", |(host, _)| host);
    match port.parse::<u16>() {
        Ok(port) if matches!(host, "" | "localhost") => Err(format!(
            "`{text}` is not an address with a port: use 127.0.0.1:{port}"
        )),
        _ => Err(format!(
            "`{text}` is not an IP address with a port, such as 127.0.0.1:4080"
        )),
    }
}

/// Like [`parse`], for an address to listen on: `:PORT` stands for all IPv4 addresses.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    match text
        .strip_prefix(':')
        .and_then(|port| port.parse::<u16>().ok())
    {
        Some(port) => Ok(SocketAddr::from(([0, 0, 0, 0], port))),
        None => parse(text).map_err(|problem| match text.parse::<u16>() {
            Ok(_) => format!("{problem}, or :{text} for all addresses"),
            Err(_) => problem,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_an_address() {
        assert!(parse("127.0.0.1:0").is_ok() && parse("[::1]:53").is_ok());
        for text in ["4080", ":4080", "localhost:4080"] {
            assert!(
                parse(text).is_err_and(|error| error.ends_with("use 127.0.0.1:4080")),
                "{text}"
            );
        }

        assert_eq!(parse_listen(":4080"), parse("0.0.0.0:4080"));
        assert!(
            parse_listen("4080").is_err_and(|error| error.ends_with("or :4080 for all addresses"))
        );
        for text in ["", "example.com:80", "127.0.0.1", "1:2:3"] {
            assert!(
                parse(text).is_err_and(|error| error.contains("such as")),
                "{text}"
            );
        }
    }
}
