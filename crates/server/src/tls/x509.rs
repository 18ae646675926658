//! What the broker needs to know of a certificate that rustls has accepted already.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbs, signatureAlgorithm, signature }
//! tbs ::= SEQUENCE { version [0]?, serial, algorithm, issuer, validity, subject, key, ids [1]? [2]?, extensions [3]? }
//! ```

use tokio_rustls::rustls::pki_types::CertificateDer;
use yasna::{
    ASN1Result, BERReader, BERReaderSeq, Tag,
    tags::{TAG_GENERALIZEDTIME, TAG_IA5STRING, TAG_PRINTABLESTRING, TAG_UTF8STRING},
};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
/// The tag of a DNS name among alternative names.
const DNS_NAME: u64 = 2;

/// A part of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// The last second of its validity, in seconds of Unix time.
    pub not_after: i64,
    /// The common names of its subject. A certificate should have one at most.
    pub common_names: Vec<String>,
    /// The DNS names among its alternative names, in their order.
    pub dns_names: Vec<String>,
}

impl Facts {
    /// `None` for what is no certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Facts> {
        yasna::parse_der(certificate, |reader| {
            reader.read_sequence(|parts| {
                let facts = parts.next().read_sequence(to_be_signed)?;
                skip(parts)?;
                skip(parts)?;
                Ok(facts)
            })
        })
        .ok()
    }
}

fn to_be_signed(parts: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Facts> {
    parts.read_optional(|version| version.read_tagged(Tag::context(0), |version| version.read_u8()))?;
    for _serial_algorithm_issuer in 0..3 {
        skip(parts)?;
    }
    let not_after = parts.next().read_sequence(|validity| {
        skip(validity)?;
        time(validity.next())
    })?;
    let common_names = common_names(parts.next())?;
    skip(parts)?;
    for unique_id in [1, 2] {
        parts.read_optional(|id| {
            id.read_tagged_implicit(Tag::context(unique_id), |id| id.read_bitvec_bytes())
        })?;
    }
    let dns_names = parts.read_optional(|list| list.read_tagged(Tag::context(3), dns_names))?;
    Ok(Facts { not_after, common_names, dns_names: dns_names.unwrap_or_default() })
}

fn skip(parts: &mut BERReaderSeq<'_, '_>) -> ASN1Result<()> {
    parts.next().read_der().map(drop)
}

fn time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    if reader.lookahead_tag()? == TAG_GENERALIZEDTIME {
        return Ok(reader.read_generalized_time()?.datetime().unix_timestamp());
    }
    Ok(reader.read_utctime()?.datetime().unix_timestamp())
}

/// Of a name: a sequence of sets of attributes.
fn common_names(name: BERReader<'_, '_>) -> ASN1Result<Vec<String>> {
    let mut found = Vec::new();
    name.read_sequence_of(|attributes| {
        attributes.read_set_of(|attribute| {
            attribute.read_sequence(|pair| {
                let oid = pair.next().read_oid()?;
                if oid.components() != COMMON_NAME {
                    return skip(pair);
                }
                found.extend(text(pair.next())?);
                Ok(())
            })
        })
    })?;
    Ok(found)
}

/// A text in one of the encodings that are in use; others are left out.
fn text(reader: BERReader<'_, '_>) -> ASN1Result<Option<String>> {
    match reader.lookahead_tag()? {
        TAG_UTF8STRING => reader.read_utf8string().map(Some),
        TAG_PRINTABLESTRING => reader.read_printable_string().map(Some),
        TAG_IA5STRING => reader.read_ia5_string().map(Some),
        _ => reader.read_der().map(|_| None),
    }
}

/// Of extensions: a sequence of an id, whether it is critical, and a value that is DER again.
fn dns_names(extensions: BERReader<'_, '_>) -> ASN1Result<Vec<String>> {
    let mut found = Vec::new();
    extensions.read_sequence_of(|extension| {
        extension.read_sequence(|parts| {
            let oid = parts.next().read_oid()?;
            parts.read_optional(|critical| critical.read_bool())?;
            let value = parts.next().read_bytes()?;
            if oid.components() == SUBJECT_ALT_NAME {
                yasna::parse_der(&value, |names| names.read_sequence_of(|name| dns_name(name, &mut found)))?;
            }
            Ok(())
        })
    })?;
    Ok(found)
}

fn dns_name(name: BERReader<'_, '_>, found: &mut Vec<String>) -> ASN1Result<()> {
    let tag = Tag::context(DNS_NAME);
    if name.lookahead_tag()? != tag {
        return name.read_der().map(drop);
    }
    found.push(name.read_tagged_implicit(tag, |text| text.read_ia5_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, KeyPair, SanType,
        date_time_ymd,
    };

    use super::*;

    fn issued(adjust: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        adjust(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn names_and_the_end_of_its_validity_are_read() {
        let certificate = issued(|params| {
            params.distinguished_name.push(DnType::OrganizationName, "example");
            params.distinguished_name.push(DnType::CommonName, "app");
            params.distinguished_name.push(DnType::CountryName, "DE");
            params.subject_alt_names = vec![
                SanType::URI("spiffe://example/app".try_into().unwrap()),
                SanType::DnsName("app.example".try_into().unwrap()),
                SanType::IpAddress("10.0.0.1".parse().unwrap()),
                SanType::DnsName("other.example".try_into().unwrap()),
            ];
            params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![1, 2, 3]));
            params.not_after = date_time_ymd(2049, 1, 1);
        });
        let names = vec!["app.example".to_owned(), "other.example".to_owned()];
        let expected =
            Facts { not_after: 2_493_072_000, common_names: vec!["app".to_owned()], dns_names: names };
        assert_eq!(Facts::of(&certificate), Some(expected));
    }

    #[test]
    fn common_names_have_several_encodings_and_times_two() {
        for value in [
            DnValue::Utf8String("bücher".to_owned()),
            DnValue::PrintableString("app".try_into().unwrap()),
            DnValue::Ia5String("app@example".try_into().unwrap()),
        ] {
            let certificate = issued(|params| {
                params.distinguished_name.push(DnType::CommonName, value.clone());
                params.not_after = date_time_ymd(2050, 1, 1);
            });
            let facts = Facts::of(&certificate).unwrap();
            assert_eq!((facts.common_names.len(), facts.not_after), (1, 2_524_608_000), "{value:?}");
        }
        let bmp = issued(|params| {
            let value = DnValue::BmpString("app".try_into().unwrap());
            params.distinguished_name.push(DnType::CommonName, value);
        });
        assert!(Facts::of(&bmp).unwrap().common_names.is_empty());
    }

    #[test]
    fn a_certificate_without_names_has_none_and_what_is_cut_is_no_certificate() {
        let certificate = issued(|_| {});
        let facts = Facts::of(&certificate).unwrap();
        assert!(facts.common_names.is_empty() && facts.dns_names.is_empty());
        for cut in 0..certificate.len() {
            assert_eq!(Facts::of(&CertificateDer::from(&certificate[..cut])), None);
        }
    }
}
