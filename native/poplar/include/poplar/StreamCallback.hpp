// Functions of the host that fill and empty streams.
#ifndef poplar_StreamCallback_hpp
#define poplar_StreamCallback_hpp

#include <poplar/ArrayRef.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace poplar {

/// Fills a stream to the device, or takes what comes from it.
class StreamCallback {
 public:
  enum class Result { Success, NotAvailable };

  virtual ~StreamCallback() {}
  /// May fill early, also for a transfer that never comes.
  virtual Result prefetch(void *buffer) = 0;
  /// Fills or takes the elements of a transfer.
  virtual void fetch(void *buffer) = 0;
  /// A transfer has ended.
  virtual void complete() {}
  /// What was filled early is not used.
  virtual void invalidatePrefetched() {}
};

/// A callback that only fills when it has to.
class LegacyStreamCallback : public StreamCallback {
 public:
  Result prefetch(void *) override { return Result::NotAvailable; }
  void complete() override {}
};

/// A callback that a stream owns: an object, or a function of a pointer.
class StreamCallbackHandle {
 public:
  template <typename Callback, typename = typename std::enable_if<
                                   std::is_base_of<StreamCallback, Callback>::value>::type>
  StreamCallbackHandle(std::unique_ptr<Callback> callback) : callback_(std::move(callback)) {}
  template <typename F, typename = decltype(std::declval<F &>()(static_cast<void *>(nullptr))),
            typename = typename std::enable_if<
                !std::is_base_of<StreamCallback, typename std::decay<F>::type>::value>::type>
  StreamCallbackHandle(F &&function) : callback_(new FunctionCallback(std::forward<F>(function))) {}
  StreamCallbackHandle(StreamCallbackHandle &&) = default;
  StreamCallbackHandle &operator=(StreamCallbackHandle &&) = default;

  StreamCallback *get() const { return callback_.get(); }

 private:
  class FunctionCallback : public LegacyStreamCallback {
   public:
    explicit FunctionCallback(std::function<void(void *)> function)
        : function_(std::move(function)) {}
    void fetch(void *buffer) override { function_(buffer); }

   private:
    std::function<void(void *)> function_;
  };

  std::unique_ptr<StreamCallback> callback_;
};

/// A function of the host that a program calls with tensors.
class HostCallback {
 public:
  virtual ~HostCallback() {}
  virtual void operator()(ArrayRef<const void *> inputs, ArrayRef<void *> outputs) = 0;
};

/// A host callback that the engine owns: an object or a function.
class HostCallbackHandle {
 public:
  template <typename Callback, typename = typename std::enable_if<
                                   std::is_base_of<HostCallback, Callback>::value>::type>
  HostCallbackHandle(std::unique_ptr<Callback> callback) : callback_(std::move(callback)) {}
  template <typename F,
            typename = decltype(std::declval<F &>()(std::declval<ArrayRef<const void *>>(),
                                                    std::declval<ArrayRef<void *>>()))>
  HostCallbackHandle(F &&function) : callback_(new FunctionCallback(std::forward<F>(function))) {}
  HostCallbackHandle(HostCallbackHandle &&) = default;
  HostCallbackHandle &operator=(HostCallbackHandle &&) = default;

  HostCallback *get() const { return callback_.get(); }

 private:
  class FunctionCallback : public HostCallback {
   public:
    using Function = std::function<void(ArrayRef<const void *>, ArrayRef<void *>)>;
    explicit FunctionCallback(Function function) : function_(std::move(function)) {}
    void operator()(ArrayRef<const void *> inputs, ArrayRef<void *> outputs) override {
      function_(inputs, outputs);
    }

   private:
    Function function_;
  };

  std::unique_ptr<HostCallback> callback_;
};

}  // namespace poplar

#endif  // poplar_StreamCallback_hpp
