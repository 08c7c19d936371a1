"""Public names by the module that each is defined in; each is loaded on first use."""

from .auditor import AuditReport as AuditReport, Verdict as Verdict
from .certificate import (
    CertificateCheck as CertificateCheck,
    MechanismCertificate as MechanismCertificate,
    certify as certify,
    check_certificate as check_certificate,
    load_certificate as load_certificate,
)
from .check import WitnessCheck as WitnessCheck, check_witness as check_witness, read_witness as read_witness
from .claims import Claim as Claim
from .conformance import check_mechanism as check_mechanism
from .external import (
    CallableSubject as CallableSubject,
    CommandSubject as CommandSubject,
    ModuleSubject as ModuleSubject,
)
from .fit import FitReport as FitReport, audit_fit as audit_fit
from .fit_witness import FitWitness as FitWitness
from .pairs import Pair as Pair
from .subjects import (
    AuditError as AuditError,
    MechanismSubject as MechanismSubject,
    PublishedSubject as PublishedSubject,
    Subject as Subject,
)
from .witness import Witness as Witness
