// SPDX-License-Identifier: BSD-3-Clause
//
// An array of numbers of which three stand in place, without an allocation: exchangeable tokens have three covariances
// and one class, and a layer makes about a hundred such arrays, which took a third of the estimator's time as vectors.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace normplace::detail {

class ShortArray {
public:
    ShortArray() = default;
    explicit ShortArray(std::size_t size, double value = 0.0) : ShortArray(size, {value, value, value}) {
        for (std::size_t i = 0; there_ && i < size; ++i) there_[i] = value;
    }
    ShortArray(std::initializer_list<double> values) : ShortArray(values.size(), Here{}) {
        double* entry = data();
        for (const double value : values) *entry++ = value;
    }
    ShortArray(const ShortArray& other) : ShortArray(other.size_, other.here_) {
        for (std::size_t i = 0; there_ && i < size_; ++i) there_[i] = other.there_[i];
    }
    ShortArray(ShortArray&& other) noexcept
        : size_(std::exchange(other.size_, 0)), here_(other.here_), there_(std::exchange(other.there_, nullptr)) {}
    ShortArray& operator=(ShortArray other) noexcept {
        size_ = other.size_;
        here_ = other.here_;
        std::swap(there_, other.there_);
        return *this;
    }
    ~ShortArray() { delete[] there_; }

    std::size_t size() const { return size_; }
    double* data() { return there_ ? there_ : here_.data(); }
    const double* data() const { return there_ ? there_ : here_.data(); }
    double& operator[](std::size_t i) { return data()[i]; }
    const double& operator[](std::size_t i) const { return data()[i]; }
    double* begin() { return data(); }
    double* end() { return data() + size_; }
    const double* begin() const { return data(); }
    const double* end() const { return data() + size_; }

private:
    using Here = std::array<double, 3>;
    ShortArray(std::size_t size, const Here& here)
        : size_(size), here_(here), there_(size > here.size() ? new double[size] : nullptr) {}

    std::size_t size_ = 0;
    Here here_{};
    double* there_ = nullptr;  // everything, when it is more than three
};

}  // namespace normplace::detail
