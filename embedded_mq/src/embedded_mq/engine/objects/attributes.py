"""The attributes of queues and of the queue manager: MQSC keyword, MQI selector, allowed values.

MQSC (DEFINE, ALTER, DISPLAY), PCF and the MQI (MQINQ, MQSET) share one table. Numbers are stored as
in the MQI; `words` has MQSC's words for them. Defaults are those of a new queue manager's
SYSTEM.DEFAULT objects (IBM MQ docs, "DEFINE queues", "ALTER QMGR").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from embedded_mq import mqi_constants as mq
from embedded_mq.pcf import constants as cf

Value = int | str

MAX_MSG_LENGTH = 104_857_600
COMMAND_QUEUE = "SYSTEM.ADMIN.COMMAND.QUEUE"
PERFORMANCE_EVENT_QUEUE = "SYSTEM.ADMIN.PERFM.EVENT"
QUEUE_MANAGER_EVENT_QUEUE = "SYSTEM.ADMIN.QMGR.EVENT"
NO_SELECTOR = 0
"""The selector of an attribute that IBM MQ does not have and only MQSC can set here."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: one of `words`, a number up to `limit`, or text of up to `length` bytes."""

    keyword: str
    selector: int
    default: Value
    words: Mapping[str, int] = field(default_factory=dict)
    lowest: int = 0
    limit: int = 0
    length: int = 0
    is_name: bool = False
    has_no_effect: bool = False
    """Whether it is stored and returned but has no effect: no trigger message, no event."""

    def allows(self, value: int) -> bool:
        """Return whether a number is an allowed value."""
        return value in self.words.values() if self.words else self.lowest <= value <= self.limit

    def format_value(self, value: Value) -> str:
        """Return a value as MQSC writes it."""
        return next((word for word, number in self.words.items() if number == value), str(value))


def _word_attribute(keyword: str, selector: int, default: str, **words: int) -> Attribute:
    return Attribute(keyword, selector, words[default], words=words)


def _number_attribute(
    keyword: str, selector: int, default: int, limit: int, lowest: int = 0
) -> Attribute:
    return Attribute(keyword, selector, default, lowest=lowest, limit=limit)


def _name_attribute(keyword: str, selector: int) -> Attribute:
    return Attribute(keyword, selector, "", length=48, is_name=True)


def _without_effect(*attributes: Attribute) -> tuple[Attribute, ...]:
    return tuple(replace(attribute, has_no_effect=True) for attribute in attributes)


def _by_keyword(*attributes: Attribute) -> dict[str, Attribute]:
    return {attribute.keyword: attribute for attribute in attributes}


_DESCR = Attribute("DESCR", mq.MQCA_Q_DESC, "", length=64)
_PUT = _word_attribute(
    "PUT", mq.MQIA_INHIBIT_PUT, "ENABLED", ENABLED=0, DISABLED=mq.MQQA_PUT_INHIBITED
)
_GET = _word_attribute(
    "GET", mq.MQIA_INHIBIT_GET, "ENABLED", ENABLED=0, DISABLED=mq.MQQA_GET_INHIBITED
)
_DEFPRTY = _number_attribute("DEFPRTY", mq.MQIA_DEF_PRIORITY, 0, 9)
_DEFPSIST = _word_attribute("DEFPSIST", mq.MQIA_DEF_PERSISTENCE, "NO", NO=0, YES=1)
_PROPCTL = _word_attribute(
    "PROPCTL",
    mq.MQIA_PROPERTY_CONTROL,
    "COMPAT",
    COMPAT=mq.MQPROP_COMPATIBILITY,
    NONE=mq.MQPROP_NONE,
    ALL=mq.MQPROP_ALL,
    FORCE=mq.MQPROP_FORCE_MQRFH2,
    V6COMPAT=mq.MQPROP_V6COMPAT,
)

_OFF_ON = {"DISABLED": 0, "ENABLED": 1}
_MONITORING = {
    "OFF": mq.MQMON_OFF,
    "LOW": mq.MQMON_LOW,
    "MEDIUM": mq.MQMON_MEDIUM,
    "HIGH": mq.MQMON_HIGH,
}

_LOCAL = _by_keyword(
    _DESCR,
    _PUT,
    _GET,
    _DEFPRTY,
    _DEFPSIST,
    _PROPCTL,
    _number_attribute("MAXDEPTH", mq.MQIA_MAX_Q_DEPTH, 5000, 999_999_999),
    _number_attribute("MAXMSGL", mq.MQIA_MAX_MSG_LENGTH, 4_194_304, MAX_MSG_LENGTH),
    _number_attribute("BOTHRESH", mq.MQIA_BACKOUT_THRESHOLD, 0, 999_999_999),
    _name_attribute("BOQNAME", mq.MQCA_BACKOUT_REQ_Q_NAME),
    _word_attribute("SHARE", mq.MQIA_SHAREABILITY, "SHARE", SHARE=1, NOSHARE=0),
    _word_attribute("HARDENBO", mq.MQIA_HARDEN_GET_BACKOUT, "HARDENBO", HARDENBO=1, NOHARDENBO=0),
    _word_attribute(
        "DEFSOPT",
        mq.MQIA_DEF_INPUT_OPEN_OPTION,
        "SHARED",
        SHARED=mq.MQOO_INPUT_SHARED,
        EXCL=mq.MQOO_INPUT_EXCLUSIVE,
    ),
    _word_attribute(
        "MSGDLVSQ",
        mq.MQIA_MSG_DELIVERY_SEQUENCE,
        "PRIORITY",
        PRIORITY=mq.MQMDS_PRIORITY,
        FIFO=mq.MQMDS_FIFO,
    ),
    _word_attribute(
        "USAGE", mq.MQIA_USAGE, "NORMAL", NORMAL=mq.MQUS_NORMAL, XMITQ=mq.MQUS_TRANSMISSION
    ),
    _word_attribute("NPMCLASS", mq.MQIA_NPM_CLASS, "NORMAL", NORMAL=0, HIGH=10),
    _name_attribute("STREAMQ", mq.MQCA_STREAM_QUEUE_NAME),
    _word_attribute(
        "STRMQOS", mq.MQIA_STREAM_QUEUE_QOS, "BESTEF", BESTEF=0, MUSTDUP=mq.MQST_MUST_DUP
    ),
    _number_attribute("QDEPTHHI", mq.MQIA_Q_DEPTH_HIGH_LIMIT, 80, 100),
    _number_attribute("QDEPTHLO", mq.MQIA_Q_DEPTH_LOW_LIMIT, 20, 100),
    _word_attribute("QDPMAXEV", mq.MQIA_Q_DEPTH_MAX_EVENT, "ENABLED", **_OFF_ON),
    _word_attribute("QDPHIEV", mq.MQIA_Q_DEPTH_HIGH_EVENT, "DISABLED", **_OFF_ON),
    _word_attribute("QDPLOEV", mq.MQIA_Q_DEPTH_LOW_EVENT, "DISABLED", **_OFF_ON),
    _word_attribute("MONQ", mq.MQIA_MONITORING_Q, "QMGR", QMGR=mq.MQMON_Q_MGR, **_MONITORING),
    *_without_effect(
        _word_attribute("TRIGGER", mq.MQIA_TRIGGER_CONTROL, "NOTRIGGER", TRIGGER=1, NOTRIGGER=0),
        _word_attribute(
            "TRIGTYPE", mq.MQIA_TRIGGER_TYPE, "FIRST", NONE=0, FIRST=1, EVERY=2, DEPTH=3
        ),
        _number_attribute("TRIGDPTH", mq.MQIA_TRIGGER_DEPTH, 1, 999_999_999, lowest=1),
        _number_attribute("TRIGMPRI", mq.MQIA_TRIGGER_MSG_PRIORITY, 0, 9),
        Attribute("TRIGDATA", mq.MQCA_TRIGGER_DATA, "", length=64),
        _name_attribute("PROCESS", mq.MQCA_PROCESS_NAME),
        _name_attribute("INITQ", mq.MQCA_INITIATION_Q_NAME),
        _number_attribute("RETINTVL", mq.MQIA_RETENTION_INTERVAL, 999_999_999, 999_999_999),
    ),
)

QUEUE_ATTRIBUTES: Mapping[int, Mapping[str, Attribute]] = {
    mq.MQQT_LOCAL: _LOCAL,
    mq.MQQT_MODEL: _LOCAL
    | _by_keyword(
        _word_attribute(
            "DEFTYPE",
            mq.MQIA_DEFINITION_TYPE,
            "TEMPDYN",
            PERMDYN=mq.MQQDT_PERMANENT_DYNAMIC,
            TEMPDYN=mq.MQQDT_TEMPORARY_DYNAMIC,
        ),
    ),
    mq.MQQT_ALIAS: _by_keyword(
        _DESCR,
        _PUT,
        _GET,
        _DEFPRTY,
        _DEFPSIST,
        _PROPCTL,
        _name_attribute("TARGET", mq.MQCA_BASE_Q_NAME),
        _word_attribute("TARGTYPE", mq.MQIA_BASE_TYPE, "QUEUE", QUEUE=mq.MQOT_Q),
    ),
    mq.MQQT_REMOTE: _by_keyword(
        _DESCR,
        _PUT,
        _DEFPRTY,
        _DEFPSIST,
        _name_attribute("RNAME", mq.MQCA_REMOTE_Q_NAME),
        _name_attribute("RQMNAME", mq.MQCA_REMOTE_Q_MGR_NAME),
        _name_attribute("XMITQ", mq.MQCA_XMIT_Q_NAME),
    ),
}

QUEUE_MANAGER_ATTRIBUTES = _by_keyword(
    Attribute("DESCR", mq.MQCA_Q_MGR_DESC, "", length=64),
    _name_attribute("DEADQ", mq.MQCA_DEAD_LETTER_Q_NAME),
    _name_attribute("DEFXMITQ", mq.MQCA_DEF_XMIT_Q_NAME),
    _number_attribute("CCSID", mq.MQIA_CODED_CHAR_SET_ID, 1208, 65535, lowest=1),
    _number_attribute("MAXMSGL", mq.MQIA_MAX_MSG_LENGTH, 4_194_304, MAX_MSG_LENGTH, lowest=32_768),
    _number_attribute("MAXUMSGS", mq.MQIA_MAX_UNCOMMITTED_MSGS, 10_000, 999_999_999, lowest=1),
    _word_attribute("AUTHOREV", mq.MQIA_AUTHORITY_EVENT, "DISABLED", **_OFF_ON),
    _word_attribute("PERFMEV", mq.MQIA_PERFORMANCE_EVENT, "DISABLED", **_OFF_ON),
    _word_attribute("MONQ", mq.MQIA_MONITORING_Q, "OFF", NONE=mq.MQMON_NONE, **_MONITORING),
    _word_attribute("HDRCHECK", NO_SELECTOR, "NO", NO=0, YES=1),
)
"""HDRCHECK, which IBM MQ does not have, enables checks of MQ headers (see `header_checks`)."""

# Of IBM's CMQXC, which has the constants of channels that PCF does not define.
MQCHT_SENDER, MQCHT_RECEIVER, MQCHT_ALL, MQCHT_SVRCONN = 1, 3, 5, 7
MQXPT_TCP = 2

_OF_CHANNELS = (
    Attribute("DESCR", cf.MQCACH_DESC, "", length=64),
    _word_attribute("TRPTYPE", cf.MQIACH_XMIT_PROTOCOL_TYPE, "TCP", TCP=MQXPT_TCP),
    *_without_effect(
        _number_attribute("MAXMSGL", cf.MQIACH_MAX_MSG_LENGTH, 4_194_304, MAX_MSG_LENGTH)
    ),
)

CHANNEL_ATTRIBUTES: Mapping[int, Mapping[str, Attribute]] = {
    MQCHT_SENDER: _by_keyword(
        *_OF_CHANNELS,
        _name_attribute("XMITQ", cf.MQCACH_XMIT_Q_NAME),
        *_without_effect(
            Attribute("CONNAME", cf.MQCACH_CONNECTION_NAME, "", length=264),
            _number_attribute("SHORTRTY", cf.MQIACH_SHORT_RETRY, 10, 999_999_999),
            _number_attribute("LONGRTY", cf.MQIACH_LONG_RETRY, 999_999_999, 999_999_999),
        ),
    ),
    MQCHT_RECEIVER: _by_keyword(*_OF_CHANNELS),
    MQCHT_SVRCONN: _by_keyword(
        *_OF_CHANNELS,
        *_without_effect(
            _number_attribute("MAXINST", cf.MQIACH_MAX_INSTANCES, 999_999_999, 999_999_999),
            _number_attribute("MAXINSTC", cf.MQIACH_MAX_INSTS_PER_CLIENT, 999_999_999, 999_999_999),
            _number_attribute("SHARECNV", cf.MQIACH_SHARING_CONVERSATIONS, 10, 999_999_999),
        ),
    ),
}

_IGNORED_OF_CHANNELS = """
    AUTOSTART BATCHHB BATCHINT BATCHLIM BATCHSZ CERTLABL CHAD COMPHDR COMPMSG CONVERT DEFRECON
    DISCINT HBINT KAINT LOCLADDR LONGTMR MCANAME MCATYPE MCAUSER MODENAME MONCHL MRDATA MREXIT MRRTY
    MRTMR MSGDATA MSGEXIT NPMSPEED PROPCTL PUTAUT RCVDATA RCVEXIT SCYDATA SCYEXIT SENDDATA SENDEXIT
    SEQWRAP SHORTTMR SPLPROT SSLCAUTH SSLCIPH SSLPEER STATCHL TPNAME USEDLQ
"""
IGNORED_CHANNEL_KEYWORDS = frozenset(_IGNORED_OF_CHANNELS.split())

MAX_PRIORITY = 9
FIXED_QUEUE_MANAGER_ATTRIBUTES: Mapping[int, Value] = {
    mq.MQCA_COMMAND_INPUT_Q_NAME: COMMAND_QUEUE.ljust(48),
    mq.MQCA_VERSION: "09040000",
    mq.MQIA_PLATFORM: mq.MQPL_UNIX,
    mq.MQIA_COMMAND_LEVEL: 940,
    mq.MQIA_MAX_PRIORITY: MAX_PRIORITY,
    mq.MQIA_SYNCPOINT: 1,
}

# Attributes that have no effect on the emulated MQI calls: accepted, reported as ignored, and not
# stored.
IGNORED_QUEUE_KEYWORDS: Mapping[str, int] = {
    "ACCTQ": mq.MQIA_ACCOUNTING_Q,
    "CAPEXPRY": 0,  # pymqi's constants have no selector for it yet
    "CLCHNAME": mq.MQCA_CLUS_CHL_NAME,
    "CLUSNL": mq.MQCA_CLUSTER_NAMELIST,
    "CLUSTER": mq.MQCA_CLUSTER_NAME,
    "CLWLPRTY": mq.MQIA_CLWL_Q_PRIORITY,
    "CLWLRANK": mq.MQIA_CLWL_Q_RANK,
    "CLWLUSEQ": mq.MQIA_CLWL_USEQ,
    "CUSTOM": mq.MQCA_CUSTOM,
    "DEFBIND": mq.MQIA_DEF_BIND,
    "DEFPRESP": mq.MQIA_DEF_PUT_RESPONSE_TYPE,
    "DEFREADA": mq.MQIA_DEF_READ_AHEAD,
    "DISTL": mq.MQIA_DIST_LISTS,
    "IMGRCOVQ": mq.MQIA_MEDIA_IMAGE_RECOVER_Q,
    "MAXFSIZE": mq.MQIA_MAX_Q_FILE_SIZE,
    "QSVCIEV": mq.MQIA_Q_SERVICE_INTERVAL_EVENT,
    "QSVCINT": mq.MQIA_Q_SERVICE_INTERVAL,
    "SCOPE": mq.MQIA_SCOPE,
    "STATQ": mq.MQIA_STATISTICS_Q,
}
"""Their selectors, which are also the PCF parameters; 0 if PCF has none."""

_IGNORED_OF_QUEUE_MANAGER = """
    ACCTCONO ACCTINT ACCTMQI ACCTQ ACTIVREC ADOPTCHK CERTLABL CHAD CHADEV CHLAUTH CHLEV
    CLWLDATA CMDEV CONFIGEV CONNAUTH CUSTOM FORCE IMGINTVL IMGLOGLN IMGRCOVO IMGRCOVQ IMGSCHED
    INHIBTEV IPADDRV LOCALEV LOGGEREV MARKINT MAXHANDS MONACLS MONCHL PSMODE REMOTEEV
    ROUTEREC SSLEV SSLKEYR STATACLS STATCHL STATINT STATMQI STATQ STRSTPEV TREELIFE TRIGINT
"""
IGNORED_QUEUE_MANAGER_KEYWORDS = frozenset(_IGNORED_OF_QUEUE_MANAGER.split())


SYSTEM_QUEUES: Mapping[str, tuple[int, Mapping[str, Value]]] = {
    COMMAND_QUEUE: (mq.MQQT_LOCAL, {}),
    PERFORMANCE_EVENT_QUEUE: (mq.MQQT_LOCAL, {}),
    QUEUE_MANAGER_EVENT_QUEUE: (mq.MQQT_LOCAL, {}),
    "SYSTEM.DEFAULT.MODEL.QUEUE": (
        mq.MQQT_MODEL,
        {"SHARE": mq.MQQA_NOT_SHAREABLE, "DEFSOPT": mq.MQOO_INPUT_EXCLUSIVE},
    ),
}
"""The queues of a new queue manager: their type and the attributes that are not defaults."""


def defaults(attributes: Mapping[str, Attribute]) -> dict[str, Value]:
    """Return the values of a newly defined object."""
    return {keyword: attribute.default for keyword, attribute in attributes.items()}
