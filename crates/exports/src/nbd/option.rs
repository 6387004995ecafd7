//! The options of the handshake, and their answers.

use evenkeel_core::settings::MAX_REQUEST;

use super::{Export, Exports, MAX_NAME_LENGTH, Negotiated, PREFERRED_BLOCK, transmission_flags};

/// How a connection stands to TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Not to be had.
    Off,
    /// The client may ask for it.
    Optional,
    /// The client must ask for it before anything else.
    Required,
    /// In use.
    Active,
}

/// What the handshake does after an option.
#[derive(Debug)]
pub(super) enum Answer {
    GoOn,
    StartTls,
    Ended,
    /// The client chose by the option that has no error answer.
    NoExport,
    /// The same, and the export has as many clients as it takes.
    NoRoom,
    Chosen {
        negotiated: Box<Negotiated>,
        old_style: bool,
    },
}

/// What has been agreed so far.
#[derive(Debug)]
pub(super) struct Session {
    tls: Tls,
    structured_replies: bool,
    /// The export for which the context `base:allocation` was set.
    context_of: Option<String>,
}

impl Session {
    pub(super) const fn new(tls: Tls) -> Self {
        Self { tls, structured_replies: false, context_of: None }
    }
}

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_STARTTLS: u32 = 5;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;
const OPT_STRUCTURED_REPLY: u32 = 8;
const OPT_LIST_META_CONTEXT: u32 = 9;
const OPT_SET_META_CONTEXT: u32 = 10;

const REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_META_CONTEXT: u32 = 4;
const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
const REP_ERR_POLICY: u32 = (1 << 31) + 2;
const REP_ERR_INVALID: u32 = (1 << 31) + 3;
const REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_DESCRIPTION: u16 = 2;
const INFO_BLOCK_SIZE: u16 = 3;

/// The only context there is, and the number by which replies name it.
const BASE_ALLOCATION: &str = "base:allocation";
pub(super) const BASE_ALLOCATION_ID: u32 = 1;

const NO_ROOM: &str = "the volume has as many clients as its server permits: disconnect one, or raise the limit there";

const NOT_ADMITTED: &str =
    "this export is for other clients: its server compares their names with your certificate";

/// An error answer: its number, and the text for people.
type Refusal = (u32, &'static str);

/// Answers to an option whose data was passed over.
pub(super) fn answer_too_big(option: u32, out: &mut Vec<u8>) {
    put_reply(option, REP_ERR_TOO_BIG, b"the option is too long", out);
}

/// Handles one option.
pub(super) fn answer_option(
    session: &mut Session,
    option: u32,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Answer {
    let allowed_before_tls = matches!(option, OPT_STARTTLS | OPT_ABORT | OPT_EXPORT_NAME);
    if session.tls == Tls::Required && !allowed_before_tls {
        put_reply(option, REP_ERR_TLS_REQD, b"ask for TLS first", out);
        return Answer::GoOn;
    }
    let answer = match option {
        OPT_EXPORT_NAME => return export_name(session, data, exports, out),
        OPT_ABORT => {
            put_reply(option, REP_ACK, &[], out);
            return Answer::Ended;
        }
        OPT_LIST => list(data, exports, out),
        OPT_STARTTLS => start_tls(session, data),
        OPT_INFO | OPT_GO => info(session, option, data, exports, out),
        OPT_STRUCTURED_REPLY => structured_reply(session, data),
        OPT_LIST_META_CONTEXT => list_contexts(session, data, exports, out),
        OPT_SET_META_CONTEXT => set_context(session, data, exports, out),
        _ => Err((REP_ERR_UNSUP, "the option is not known here")),
    };
    match answer {
        Ok(answer) => {
            put_reply(option, REP_ACK, &[], out);
            answer
        }
        Err((error, text)) => {
            put_reply(option, error, text.as_bytes(), out);
            Answer::GoOn
        }
    }
}

fn put_reply(option: u32, kind: u32, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&REP_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

fn export_name(session: &Session, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Answer {
    let found = core::str::from_utf8(data)
        .ok()
        .filter(|name| session.tls != Tls::Required && name.len() <= MAX_NAME_LENGTH)
        .and_then(|name| find(name, exports).ok());
    let Some(export) = found else { return Answer::NoExport };
    if !exports.has_room(&export) {
        return Answer::NoRoom;
    }
    out.extend_from_slice(&export.size.to_be_bytes());
    let flags = transmission_flags(&export, session.structured_replies);
    out.extend_from_slice(&flags.to_be_bytes());
    chosen(session, export, data, true)
}

/// The export of this name, if the client may use it.
fn find(name: &str, exports: &dyn Exports) -> Result<Export, Refusal> {
    let export = exports.find(name).ok_or((REP_ERR_UNKNOWN, "there is no export of this name"))?;
    if exports.admits(&export) { Ok(export) } else { Err((REP_ERR_POLICY, NOT_ADMITTED)) }
}

/// `requested` is the name as the client gave it.
fn chosen(session: &Session, export: Export, requested: &[u8], old_style: bool) -> Answer {
    let context_of = session.context_of.as_ref().map(String::as_bytes);
    let negotiated = Negotiated {
        export,
        structured_replies: session.structured_replies,
        block_status: context_of == Some(requested),
        rest: Vec::new(),
    };
    Answer::Chosen { negotiated: Box::new(negotiated), old_style }
}

fn list(data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Result<Answer, Refusal> {
    expect_no_data(data)?;
    for export in exports.list() {
        let mut entry = (export.name.len() as u32).to_be_bytes().to_vec();
        entry.extend_from_slice(export.name.as_bytes());
        entry.extend_from_slice(export.description.as_bytes());
        put_reply(OPT_LIST, REP_SERVER, &entry, out);
    }
    Ok(Answer::GoOn)
}

fn start_tls(session: &Session, data: &[u8]) -> Result<Answer, Refusal> {
    expect_no_data(data)?;
    match session.tls {
        Tls::Off => Err((REP_ERR_UNSUP, "this export has no TLS")),
        Tls::Active => Err((REP_ERR_INVALID, "TLS is in use already")),
        Tls::Optional | Tls::Required => Ok(Answer::StartTls),
    }
}

fn structured_reply(session: &mut Session, data: &[u8]) -> Result<Answer, Refusal> {
    expect_no_data(data)?;
    session.structured_replies = true;
    Ok(Answer::GoOn)
}

fn info(
    session: &Session,
    option: u32,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Result<Answer, Refusal> {
    let mut data = Data(data);
    let name = data.string()?;
    let count = data.u16()?;
    let wanted = (0..count).map(|_| data.u16()).collect::<Result<Vec<_>, _>>()?;
    expect_no_data(data.0)?;
    let export = find(name, exports)?;
    if option == OPT_GO && !exports.has_room(&export) {
        return Err((REP_ERR_POLICY, NO_ROOM));
    }
    put_info(session, option, &wanted, &export, out);
    Ok(match option {
        OPT_GO => chosen(session, export, name.as_bytes(), false),
        _ => Answer::GoOn,
    })
}

fn put_info(session: &Session, option: u32, wanted: &[u16], export: &Export, out: &mut Vec<u8>) {
    let mut put = |kind: u16, parts: &[&[u8]]| {
        let item = [&kind.to_be_bytes()[..], &parts.concat()].concat();
        put_reply(option, REP_INFO, &item, out);
    };
    let flags = transmission_flags(export, session.structured_replies);
    put(INFO_EXPORT, &[&export.size.to_be_bytes(), &flags.to_be_bytes()]);
    if wanted.contains(&INFO_NAME) {
        put(INFO_NAME, &[export.name.as_bytes()]);
    }
    if wanted.contains(&INFO_DESCRIPTION) && !export.description.is_empty() {
        put(INFO_DESCRIPTION, &[export.description.as_bytes()]);
    }
    // Also to clients that did not ask: those who do not know it ignore it.
    let preferred = PREFERRED_BLOCK.max(export.block_size);
    let sizes = [export.block_size, preferred, MAX_REQUEST].map(u32::to_be_bytes);
    put(INFO_BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
}

/// The data of both context options: the export, and what is asked for.
fn read_queries<'a>(
    session: &Session,
    data: &'a [u8],
    exports: &dyn Exports,
) -> Result<(&'a str, Vec<&'a str>), Refusal> {
    if !session.structured_replies {
        return Err((REP_ERR_INVALID, "ask for structured replies first"));
    }
    let mut data = Data(data);
    let name = data.string()?;
    let count = data.u32()?;
    let queries = (0..count).map(|_| data.string()).collect::<Result<Vec<_>, _>>()?;
    expect_no_data(data.0)?;
    find(name, exports)?;
    Ok((name, queries))
}

fn list_contexts(
    session: &Session,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Result<Answer, Refusal> {
    let (_, queries) = read_queries(session, data, exports)?;
    let fits = |query: &&str| matches!(*query, "base:" | BASE_ALLOCATION);
    if queries.is_empty() || queries.iter().any(fits) {
        put_context(OPT_LIST_META_CONTEXT, 0, out);
    }
    Ok(Answer::GoOn)
}

fn set_context(
    session: &mut Session,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Result<Answer, Refusal> {
    // Whatever comes of it, what was set before does not count any more.
    session.context_of = None;
    let (name, queries) = read_queries(session, data, exports)?;
    if queries.contains(&BASE_ALLOCATION) {
        session.context_of = Some(name.to_owned());
        put_context(OPT_SET_META_CONTEXT, BASE_ALLOCATION_ID, out);
    }
    Ok(Answer::GoOn)
}

fn put_context(option: u32, id: u32, out: &mut Vec<u8>) {
    let item = [&id.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat();
    put_reply(option, REP_META_CONTEXT, &item, out);
}

fn expect_no_data(data: &[u8]) -> Result<(), Refusal> {
    if data.is_empty() { Ok(()) } else { Err((REP_ERR_INVALID, "the option's data is too long")) }
}

/// What is left of an option's data.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    const SHORT: Refusal = (REP_ERR_INVALID, "the option's data is too short");

    fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Refusal> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    fn u32(&mut self) -> Result<u32, Refusal> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// A length and so many bytes of UTF-8.
    fn string(&mut self) -> Result<&'a str, Refusal> {
        let length = self.u32()? as usize;
        if length > MAX_NAME_LENGTH {
            return Err((REP_ERR_TOO_BIG, "a string is longer than 4096 bytes"));
        }
        core::str::from_utf8(self.take(length)?)
            .map_err(|_| (REP_ERR_INVALID, "a string is not UTF-8"))
    }
}
