//! TLS to the broker of this machine, whose certificate need not be for the address that is dialled. For questions without secrets
//! whose answers anybody may see: the peer is not verified.

use std::net::{IpAddr, TcpStream};

use redstart_client::{InvalidTls, Tls, Trust};
use tokio_rustls::rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

/// The handshake is done with the first bytes that are written or read.
pub fn connect(
    stream: TcpStream,
    address: IpAddr,
) -> Result<StreamOwned<ClientConnection, TcpStream>, InvalidTls> {
    let config = Tls::new(Trust::Anyone, None)?.config();
    let name = ServerName::IpAddress(address.into());
    Ok(StreamOwned::new(ClientConnection::new(config, name)?, stream))
}
