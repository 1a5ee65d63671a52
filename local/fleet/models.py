"""ASIC models with the nameplate figures of their data sheets."""

from __future__ import annotations

from dataclasses import dataclass

SHA256 = "SHA-256"
SCRYPT = "Scrypt"
KHEAVYHASH = "kHeavyHash"
EQUIHASH = "Equihash"
ETCHASH = "Etchash"


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A model; hashrate in H/s or Sol/s. `share` is its part of the sample fleet."""

    name: str
    algorithm: str
    hashrate_hs: float
    power_w: float
    share: float


MODELS = (
    Model(name="Antminer S21", algorithm=SHA256, hashrate_hs=200e12, power_w=3500, share=0.26),
    Model(name="Antminer S19j Pro", algorithm=SHA256, hashrate_hs=104e12, power_w=3068, share=0.16),
    Model(name="Whatsminer M50S", algorithm=SHA256, hashrate_hs=126e12, power_w=3276, share=0.14),
    Model(name="Antminer L9", algorithm=SCRYPT, hashrate_hs=16e9, power_w=3360, share=0.12),
    Model(name="Antminer L7", algorithm=SCRYPT, hashrate_hs=9.5e9, power_w=3425, share=0.10),
    Model(name="Antminer KS5", algorithm=KHEAVYHASH, hashrate_hs=20e12, power_w=3000, share=0.08),
    Model(name="Antminer Z15 Pro", algorithm=EQUIHASH, hashrate_hs=840e3, power_w=2780, share=0.08),
    Model(name="Antminer E9 Pro", algorithm=ETCHASH, hashrate_hs=3.68e9, power_w=2200, share=0.06),
)
