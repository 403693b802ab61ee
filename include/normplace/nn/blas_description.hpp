// SPDX-License-Identifier: BSD-3-Clause
//
// Which BLAS a program runs on, in one line for people. Most of the speed is lost without a word where that is the
// reference BLAS, or an OpenBLAS that takes a processor newer than itself for one of 2004. Needs no particular BLAS,
// and none at all: it asks whichever of their functions the process has.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>

#include <normplace/detail/instruction_set.hpp>

#if defined(__GNUC__) && !defined(__APPLE__) && !defined(_WIN32)
#define NORMPLACE_CAN_ASK_BLAS 1
// Null in a process without them. The names are ours, so that a library's own header may declare them in its way.
extern "C" {
__attribute__((weak)) const char* normplace_openblas_config() __asm__("openblas_get_config");
__attribute__((weak)) const char* normplace_openblas_core() __asm__("openblas_get_corename");
__attribute__((weak)) const char* normplace_blis_version() __asm__("bli_info_get_version_str");
__attribute__((weak)) void normplace_mkl_version(char*, int) __asm__("mkl_get_version_string");
// A variable of netlib's CBLAS.
__attribute__((weak)) extern int normplace_netlib_row_major __asm__("RowMajorStrg");
}
#endif

namespace normplace {

struct BlasDescription {
    std::string library;     ///< "OpenBLAS 0.3.21"
    std::string kernels;     ///< the processor that they are for, "Haswell"; empty where the library does not say
    std::string advice;      ///< what would make matrix products faster; empty where nothing is known to
    bool reference = false;  ///< whether it is the reference BLAS, which nobody should compute with
};

namespace detail {

/// What OpenBLAS's kernels of this name are written in. A name that is not known here is a new one.
inline InstructionSet instruction_set_of_kernels(std::string name) {
    for (char& letter : name)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    constexpr std::string_view avx2[] = {"haswell", "zen", "excavator"};
    constexpr std::string_view older[] = {
        "generic",      "katmai",    "coppermine", "northwood",   "prescott",  "banias",     "atom",
        "core2",        "penryn",    "dunnington", "nehalem",     "nano",      "athlon",     "opteron",
        "opteron_sse3", "barcelona", "bobcat",     "sandybridge", "bulldozer", "piledriver", "steamroller"};
    if (std::find(std::begin(older), std::end(older), name) != std::end(older)) return InstructionSet::baseline;
    if (std::find(std::begin(avx2), std::end(avx2), name) != std::end(avx2)) return InstructionSet::avx2;
    return InstructionSet::avx512;
}

/// @param config openblas_get_config(): "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64"
inline BlasDescription describe_openblas(std::string_view config, std::string_view kernels, InstructionSet processor) {
    BlasDescription openblas{
        std::string(config.substr(0, config.find(' ', config.find(' ') + 1))), std::string(kernels), {}};
    const InstructionSet known = instruction_set_of_kernels(openblas.kernels);
    if (known >= processor) return openblas;
    const bool avx512 = processor == InstructionSet::avx512, dynamic = config.find("DYNAMIC_ARCH") != config.npos;
    // One thread of a Xeon of 2023, OpenBLAS 0.3.21: 22 GF/s with Prescott's kernels, 110 with SkylakeX's.
    const char* times = known == InstructionSet::avx2 ? "2" : avx512 ? "5" : "3";
    if (!dynamic) openblas.advice = "an OpenBLAS built with DYNAMIC_ARCH";
    else openblas.advice = avx512 ? "OPENBLAS_CORETYPE=SkylakeX" : "OPENBLAS_CORETYPE=Haswell";
    openblas.advice += std::string(" makes products up to ") + times + " times as fast";
    return openblas;
}

}  // namespace detail

/// The BLAS of this process.
inline BlasDescription blas_description() {
#ifdef NORMPLACE_CAN_ASK_BLAS
    if (normplace_openblas_config && normplace_openblas_core)
        return detail::describe_openblas(normplace_openblas_config(), normplace_openblas_core(),
                                         detail::instruction_set());
    if (normplace_blis_version) return {std::string("BLIS ") + normplace_blis_version(), {}, {}};
    if (normplace_mkl_version) {
        std::array<char, 200> text{};
        normplace_mkl_version(text.data(), static_cast<int>(text.size()) - 1);
        const std::string version(text.data());
        return {version.substr(0, version.find_last_not_of(' ') + 1), {}, {}};
    }
    if (&normplace_netlib_row_major)
        return {"the reference BLAS", {}, "products are many times slower than need be: install libopenblas-dev", true};
#endif
    return {"an unknown BLAS",
            {},
            "if it is the reference BLAS, products are many times slower than need be: install libopenblas-dev"};
}

/// One line: `OpenBLAS 0.3.21, Prescott kernels; OPENBLAS_CORETYPE=SkylakeX makes products up to 5 times as fast`.
inline std::ostream& operator<<(std::ostream& stream, const BlasDescription& blas) {
    stream << blas.library;
    if (!blas.kernels.empty()) stream << ", " << blas.kernels << " kernels";
    if (!blas.advice.empty()) stream << "; " << blas.advice;
    return stream;
}

}  // namespace normplace
