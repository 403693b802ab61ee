// SPDX-License-Identifier: BSD-3-Clause
//
// The grammar in which a placement is written, as the papers write it:
//
//     x + f(norm(x))                              Pre-LN
//     norm(x + f(x))                              Post-LN
//     x + norm<out>(f(norm<in>(x)))               Peri-LN
//     norm(alpha * x + f(x))                      DeepNorm
//
// `x` is the residual stream, `f` the sublayer, `norm` a normalization that the block owns (its slot says which one
// when there are several), `+` and `scalar *` what they say. A formula is a constexpr object whose type is its syntax
// tree. It computes nothing itself: forward, backward, moments and print are interpreters that walk the tree.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <normplace/placement/depth.hpp>

namespace normplace {

/// A short name kept inside the object, so that it can be a template argument. At most 23 characters.
struct Label {
    char text[24]{};

    constexpr Label() = default;
    template <std::size_t N>
    constexpr Label(const char (&name)[N]) {  // NOLINT: "in" is meant to read as a label
        static_assert(N <= sizeof(text), "normplace: a slot's or a scalar's name has at most 23 characters.");
        for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
    }
    constexpr std::string_view view() const { return text; }
    constexpr bool operator==(const Label& other) const { return view() == other.view(); }
};

/// A factor in a formula: a constant, or a named law of the depth such as DeepNorm's alpha = (2L)^(1/4).
struct Scalar {
    Label name{};
    double constant = 1.0;
    double (*law)(const Depth&) = nullptr;

    /// @throws std::invalid_argument when the law gives no finite number there
    constexpr double at(const Depth& depth) const {
        const double value = law ? law(depth) : constant;
        if (!(value - value == 0.0))
            throw std::invalid_argument("the scalar '" + std::string(name.view()) + "' is " + std::to_string(value) +
                                        " at layer " + std::to_string(depth.layer) + " of " +
                                        std::to_string(depth.layers));
        return value;
    }
};

/// A named scalar that depends on the depth: `scalar("alpha", [](const Depth& d) { return ...; })`.
constexpr Scalar scalar(const Label& name, double (*law)(const Depth&)) { return {name, 1.0, law}; }

namespace syntax {

struct Stream {};  // x

template <class Input>
struct Sublayer {  // f(input)
    Input input;
};

template <Label slot_, class Input>
struct Norm {  // norm<slot>(input)
    static constexpr Label slot = slot_;
    Input input;
};

template <class Left, class Right>
struct Sum {  // left + right
    Left left;
    Right right;
};

template <class Input>
struct Scaled {  // factor * input
    Scalar factor;
    Input input;
};

template <class>
inline constexpr bool is_expression = false;
template <>
inline constexpr bool is_expression<Stream> = true;
template <class Input>
inline constexpr bool is_expression<Sublayer<Input>> = true;
template <Label slot, class Input>
inline constexpr bool is_expression<Norm<slot, Input>> = true;
template <class Left, class Right>
inline constexpr bool is_expression<Sum<Left, Right>> = true;
template <class Input>
inline constexpr bool is_expression<Scaled<Input>> = true;

template <class E>
concept Expression = is_expression<std::remove_cvref_t<E>>;

template <Expression Left, Expression Right>
constexpr auto operator+(const Left& left, const Right& right) {
    return Sum<Left, Right>{left, right};
}
template <Expression Input>
constexpr auto operator*(const Scalar& factor, const Input& input) {
    return Scaled<Input>{factor, input};
}
template <Expression Input>
constexpr auto operator*(double factor, const Input& input) {
    return Scaled<Input>{Scalar{{}, factor, nullptr}, input};
}

// What a tree contains, counted at compile time.

/// How often x and f occur.
struct Counts {
    std::size_t streams = 0, sublayers = 0;

    constexpr Counts operator+(const Counts& other) const {
        return {streams + other.streams, sublayers + other.sublayers};
    }
};
constexpr Counts count(Stream) { return {1, 0}; }
template <class Input>
constexpr Counts count(const Sublayer<Input>& e) {
    return count(e.input) + Counts{0, 1};
}
template <Label slot, class Input>
constexpr Counts count(const Norm<slot, Input>& e) {
    return count(e.input);
}
template <class Left, class Right>
constexpr Counts count(const Sum<Left, Right>& e) {
    return count(e.left) + count(e.right);
}
template <class Input>
constexpr Counts count(const Scaled<Input>& e) {
    return count(e.input);
}

/// The summands of an expression: what stands inside f or norm belongs to that one.
template <class E>
constexpr std::size_t count_terms(const E&) {
    return 1;
}
template <class Left, class Right>
constexpr std::size_t count_terms(const Sum<Left, Right>& e) {
    return count_terms(e.left) + count_terms(e.right);
}
template <class Input>
constexpr std::size_t count_terms(const Scaled<Input>& e) {
    return count_terms(e.input);
}

/// The slots of a formula's norms, in the order in which they are read.
template <std::size_t N>
using Slots = std::array<Label, N>;

template <std::size_t M, std::size_t N>
constexpr Slots<M + N> joined(const Slots<M>& first, const Slots<N>& second) {
    Slots<M + N> all{};
    for (std::size_t i = 0; i < M; ++i) all[i] = first[i];
    for (std::size_t i = 0; i < N; ++i) all[M + i] = second[i];
    return all;
}
constexpr Slots<0> slots(Stream) { return {}; }
template <class Input>
constexpr auto slots(const Sublayer<Input>& e) {
    return slots(e.input);
}
template <Label slot, class Input>
constexpr auto slots(const Norm<slot, Input>& e) {
    return joined(Slots<1>{slot}, slots(e.input));
}
template <class Left, class Right>
constexpr auto slots(const Sum<Left, Right>& e) {
    return joined(slots(e.left), slots(e.right));
}
template <class Input>
constexpr auto slots(const Scaled<Input>& e) {
    return slots(e.input);
}

template <std::size_t N>
constexpr bool all_distinct(const Slots<N>& names) {
    for (std::size_t i = 0; i < N; ++i)
        for (std::size_t j = i + 1; j < N; ++j)
            if (names[i] == names[j]) return false;
    return true;
}

/// The position of `slot` among `names`; N when it is not there.
template <std::size_t N>
constexpr std::size_t slot_index(const Slots<N>& names, const Label& slot) {
    std::size_t i = 0;
    while (i < N && !(names[i] == slot)) ++i;
    return i;
}

}  // namespace syntax

/// The residual stream.
inline constexpr syntax::Stream x{};

/// The sublayer (attention or feed-forward), applied to an expression.
template <syntax::Expression Input>
constexpr auto f(const Input& input) {
    return syntax::Sublayer<Input>{input};
}

/// The slots of a placement with a norm on both sides of the sublayer. `norm<"any-name">(...)` works as well.
inline constexpr Label in{"in"};
inline constexpr Label out{"out"};

/// A normalization of an expression. Each slot is one norm with its own gain and bias.
template <Label slot = Label{}, syntax::Expression Input>
constexpr auto norm(const Input& input) {
    return syntax::Norm<slot, Input>{input};
}

}  // namespace normplace
