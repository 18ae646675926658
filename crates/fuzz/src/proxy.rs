use redstart_server::fuzz::{BYTES_MAX, Parsed, parse};

/// The first bytes of a connection. A header is within its bound and needs all of its bytes; what follows it changes nothing, and
/// what comes in pieces is never refused before the piece that makes it wrong.
pub fn proxy_header(data: &[u8]) {
    let data = &data[..data.len().min(2 * BYTES_MAX)];
    match parse(data) {
        Ok(Parsed::Header(header)) => {
            assert!(header.len <= data.len() && header.len <= BYTES_MAX);
            assert_eq!(parse(&data[..header.len]), Ok(Parsed::Header(header)));
            assert_eq!(parse(&data[..header.len - 1]), Ok(Parsed::Incomplete));
        }
        Ok(Parsed::Incomplete) => {
            assert!(data.len() < BYTES_MAX);
            assert_eq!(parse(&data[..data.len() / 2]), Ok(Parsed::Incomplete));
        }
        Err(invalid) => {
            let more = [data, b"\r\n"].concat();
            assert_eq!(parse(&more), Err(invalid), "more bytes do not make it right");
        }
    }
}
