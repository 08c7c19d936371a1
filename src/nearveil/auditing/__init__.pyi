"""Public names by the module that each is defined in; each is loaded on first use."""

from .auditor import AuditReport as AuditReport
from .auditor import Verdict as Verdict
from .certificate import (
    CertificateCheck as CertificateCheck,
)
from .certificate import (
    MechanismCertificate as MechanismCertificate,
)
from .certificate import (
    certify as certify,
)
from .certificate import (
    check_certificate as check_certificate,
)
from .certificate import (
    load_certificate as load_certificate,
)
from .check import WitnessCheck as WitnessCheck
from .check import check_witness as check_witness
from .check import read_witness as read_witness
from .claims import Claim as Claim
from .conformance import check_mechanism as check_mechanism
from .external import (
    CallableSubject as CallableSubject,
)
from .external import (
    CommandSubject as CommandSubject,
)
from .external import (
    ModuleSubject as ModuleSubject,
)
from .fit import FitReport as FitReport
from .fit import audit_fit as audit_fit
from .fit_witness import FitWitness as FitWitness
from .pairs import Pair as Pair
from .subjects import (
    AuditError as AuditError,
)
from .subjects import (
    MechanismSubject as MechanismSubject,
)
from .subjects import (
    PublishedSubject as PublishedSubject,
)
from .subjects import (
    Subject as Subject,
)
from .witness import Witness as Witness

__all__: list[str]
