//! Keys and certificates as text, as OpenSSL and GnuTLS read it. The TLS library reads it, and does
//! not write it.

/// What stands above and below a certificate.
pub const CERTIFICATE: &str = "CERTIFICATE";
/// What stands above and below a private key (PKCS #8).
pub const PRIVATE_KEY: &str = "PRIVATE KEY";
/// What stands above and below a public key (SubjectPublicKeyInfo).
pub const PUBLIC_KEY: &str = "PUBLIC KEY";

/// Characters of a line.
const WIDTH: usize = 64;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// DER as PEM (RFC 7468), with a line feed at the end.
#[must_use]
pub fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in base64(der).as_bytes().chunks(WIDTH) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = (bits >> (18 - 6 * index)) & 63;
            match index <= group.len() {
                true => text.push(char::from(DIGITS[digit as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
