// SPDX-License-Identifier: BSD-3-Clause
#include "vocabulary.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <normplace/io/atomic_file.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace training {

namespace {

constexpr const char* mask_piece = "<mask>";
constexpr std::size_t largest_size = 1000000;

class Sentences : public sentencepiece::SentenceIterator {
public:
    explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}
    bool done() const override { return next_ == sentences_.size(); }
    void Next() override { ++next_; }
    const std::string& value() const override { return sentences_[next_]; }
    sentencepiece::util::Status status() const override { return {}; }

private:
    const std::vector<std::string>& sentences_;
    std::size_t next_ = 0;
};

/// What the library refuses, in our words where a user can mend it.
std::string refusal(const std::string& error, std::size_t size) {
    const std::string sign = "smaller than required_chars", needed = " vs ";
    const std::size_t at = error.find(needed);
    if (error.find(sign) == error.npos || at == error.npos) return "the vocabulary cannot be trained: " + error;
    return "a vocabulary of " + std::to_string(size) +
           " pieces is too small: the corpus's characters and the special "
           "pieces are " +
           std::to_string(std::strtoul(error.c_str() + at + needed.size(), nullptr, 10));
}

bool is_blank(const std::string& sentence) { return sentence.find_first_not_of(" \t\r\n") == sentence.npos; }

}  // namespace

Vocabulary Vocabulary::train(const std::vector<std::string>& sentences, const VocabularyOptions& options) {
    if (std::all_of(sentences.begin(), sentences.end(), is_blank))
        throw std::runtime_error("a vocabulary cannot be trained from " + std::to_string(sentences.size()) +
                                 " sentences, none of which has a character");
    if (options.size <= mask)
        throw std::runtime_error("a vocabulary of " + std::to_string(options.size) +
                                 " pieces has no room for text: five are special");
    if (options.size > largest_size)
        throw std::runtime_error("a vocabulary of " + std::to_string(options.size) + " pieces, expected at most " +
                                 std::to_string(largest_size));
    std::size_t longest = 10;  // the least that the library takes
    for (const std::string& sentence : sentences) longest = std::max(longest, sentence.size());
    const std::unordered_map<std::string, std::string> arguments{
        {"vocab_size", std::to_string(options.size)},
        {"hard_vocab_limit", "false"},
        {"model_type", options.model == VocabularyOptions::Model::bpe ? "bpe" : "unigram"},
        {"character_coverage", "1.0"},
        {"pad_id", std::to_string(padding)},
        {"unk_id", std::to_string(unknown)},
        {"bos_id", std::to_string(begin)},
        {"eos_id", std::to_string(end)},
        {"control_symbols", mask_piece},
        {"max_sentence_length", std::to_string(longest)},
        {"num_threads", "1"},  // sums over threads would depend on their number
        {"minloglevel", "3"},  // what fails is in the status too
    };
    Sentences iterator(sentences);
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
    if (!status.ok()) throw std::runtime_error(refusal(status.error_message(), options.size));
    Vocabulary vocabulary = from_model(std::move(model), "the trained vocabulary");
    if (vocabulary.size() != options.size)
        vocabulary.notice_ = "the corpus gives a vocabulary of " + std::to_string(vocabulary.size()) +
                             " pieces, not of " + std::to_string(options.size);
    return vocabulary;
}

Vocabulary Vocabulary::load(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw std::runtime_error(file + " cannot be opened");
    std::string model{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    return from_model(std::move(model), file);
}

Vocabulary Vocabulary::from_model(std::string model, const std::string& origin) {
    auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
    // It takes an empty string for a model, of no pieces.
    if (!processor->LoadFromSerializedProto(model).ok() || processor->GetPieceSize() == 0)
        throw std::runtime_error(origin + " is not a SentencePiece model");
    const auto require = [&](const char* what, int is, int expected) {
        if (is != expected)
            throw std::runtime_error(origin + " has " + (is < 0 ? "no id" : "id " + std::to_string(is)) + " for " +
                                     what + ", expected " + std::to_string(expected));
    };
    require("padding", processor->pad_id(), padding);
    require("unknown pieces", processor->unk_id(), unknown);
    require("the begin", processor->bos_id(), begin);
    require("the end", processor->eos_id(), end);
    const int mask_id = processor->PieceToId(mask_piece);
    require("the mask", mask_id == unknown ? -1 : mask_id, mask);
    Vocabulary vocabulary;
    vocabulary.size_ = static_cast<std::size_t>(processor->GetPieceSize());
    vocabulary.model_ = std::move(model);
    vocabulary.processor_ = std::move(processor);
    return vocabulary;
}

void Vocabulary::save(const std::string& file) const {
    normplace::AtomicFile output(file);
    output.write(model_);
    output.commit();
}

std::vector<int> Vocabulary::encode(const std::string& sentence) const {
    std::vector<int> ids;
    const auto status = processor_->Encode(sentence, &ids);
    if (!status.ok()) throw std::runtime_error(std::string("a sentence cannot be encoded: ") + status.error_message());
    return ids;
}

std::string Vocabulary::decode(const std::vector<int>& ids) const {
    const std::vector<int> text(ids.begin(), std::find(ids.begin(), ids.end(), end));
    for (const int id : text) require_known(id);
    std::string sentence;
    const auto status = processor_->Decode(text, &sentence);
    if (!status.ok()) throw std::runtime_error(std::string("ids cannot be decoded: ") + status.error_message());
    return sentence;
}

std::string Vocabulary::piece(int id) const {
    require_known(id);
    return processor_->IdToPiece(id);
}

void Vocabulary::require_known(int id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= size_)
        throw std::runtime_error("id " + std::to_string(id) + " is not in a vocabulary of " + std::to_string(size_));
}

}  // namespace training
