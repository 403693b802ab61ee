// SPDX-License-Identifier: BSD-3-Clause
//
// The types that tensors have in safetensors files, and how their entries become ours.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace normplace::detail {

static_assert(std::endian::native == std::endian::little, "normplace: safetensors files are little-endian.");

struct ElementType {
    std::string_view name;
    std::size_t bytes;
};
/// From the last to the first in a file: large entries come first, so that all are aligned.
inline constexpr ElementType element_types[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};
inline const ElementType* find_element_type(std::string_view name) {
    const auto* found = std::ranges::find(element_types, name, &ElementType::name);
    return found == std::end(element_types) ? nullptr : found;
}

template <class T>
constexpr std::string_view dtype_of() {
    if constexpr (std::is_same_v<T, float>) return "F32";
    else if constexpr (std::is_same_v<T, double>) return "F64";
    else {
        static_assert(std::is_same_v<T, std::int64_t>,
                      "normplace: tensors of float, double and std::int64_t can be written to safetensors files.");
        return "I64";
    }
}

inline std::string shape_text(const std::vector<std::size_t>& shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + ")";
}

/// Whether a * b is representable; if so, a becomes it.
inline bool multiply(std::uint64_t& a, std::uint64_t b) {
    if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return false;
    a *= b;
    return true;
}
/// Whether a tensor of this shape has `count` entries.
inline bool has_count(const std::vector<std::size_t>& shape, std::size_t count) {
    std::uint64_t product = 1;
    for (const std::size_t extent : shape)
        if (!multiply(product, extent)) return false;
    return product == count;
}

/// IEEE 754 binary16. Exact, and a NaN keeps its bits.
inline float from_half(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), bits >> 15 ? -1.0f : 1.0f);
    return std::bit_cast<float>(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13);
}
/// bfloat16: the upper half of a float.
inline float from_brain_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline constexpr std::uint64_t longest_safetensors_header = 100'000'000;  // bytes; the format's own limit

}  // namespace normplace::detail
