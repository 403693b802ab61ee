// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/placement/norm_kind.hpp>

using namespace normplace;

TEST_CASE("every kind has a name of its own") {
    for (const auto& [text, kind] : norm_kinds) {
        CHECK(name(kind) == text);
        std::size_t same = 0;
        for (const auto& other : norm_kinds) same += other.first == text || other.second == kind;
        CHECK(same == 1);
    }
    static_assert(name(NormKind::dyt) == "dyt");
    static_assert(norm_kinds.size() == static_cast<std::size_t>(NormKind::dyt) + 1);
}

TEST_CASE("which of them leave second moment 1") {
    static_assert(normalises(NormKind::layer_norm) && normalises(NormKind::scale_norm));
    static_assert(normalises(NormKind::unit_offset_rms_norm));
    static_assert(!normalises(NormKind::centre_norm) && !normalises(NormKind::unit_norm));
    static_assert(!normalises(NormKind::dyt));
}

TEST_CASE("which of them divide by a row's size") {
    static_assert(divides_by_size(NormKind::unit_norm) && divides_by_size(NormKind::scale_norm));
    static_assert(!divides_by_size(NormKind::centre_norm) && !divides_by_size(NormKind::dyt));
}
